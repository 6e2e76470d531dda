"""The first words, the verbs, and content on its way in."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, post_fixture, sha256, store_tree  # noqa: F401

from conftest import eventually
from holdfast.engine.connection import bundle
from holdfast.engine.submit.upload import CHUNK, Shipment
from holdfast.engine.submit.upload import changed as changed_parts
from holdfast.errors import RunnerError, UnreachableError
from holdfast.hosts.local import LocalHost
from holdfast.runner import wire
from holdfast.runner.store import objects
from holdfast.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.connection.channel import RunnerChannel

MIB = 1024 * 1024
PLAN = {"uid": "0" * 32, "run_id": "r_1", "argv": ["true"], "tree": "0" * 64}


def test_hello_says_who_is_there(post: Post) -> None:
    hello = post.channel.hello()
    assert hello["protocol"] == wire.PROTOCOL
    assert hello["host"] == os.uname().nodename
    assert str(hello["python"]).rsplit(".", 1)[0] in post.python
    again = post.connect().hello()
    assert {**again, "fit": None} == {**hello, "fit": None}
    fit = hello["fit"]
    assert isinstance(fit, dict)
    assert (fit["read_only"], fit["locks"]) == (False, "")
    assert abs(fit["clock_ns"] / 1e9 - time.time()) < 60


def test_probe_tells_what_the_machine_has(post: Post) -> None:
    facts = post.channel.ask("probe")["facts"]
    assert isinstance(facts, dict)
    assert facts["cpus"] == os.cpu_count()
    assert 0 < facts["disk_free"] < 10**18
    assert facts["inodes_free"] > 0


@ONCE
def test_the_store_is_private(post: Post) -> None:
    post.run("print(1)")
    loose = [
        path
        for folder, folders, files in os.walk(post.home)
        for path in [os.path.join(folder, name) for name in folders + files]
        if os.lstat(path).st_mode & 0o077 and not os.path.islink(path)
    ]
    assert loose == []


@ONCE
@pytest.mark.parametrize(
    ("verb", "fields", "code"),
    [
        ("dance", {}, "unknown-verb"),
        ("lacks", {}, "bad-request"),
        ("lacks", {"digests": ["../../etc/passwd"]}, "bad-request"),
        ("look", {"tickets": ["../../etc/a1"]}, "bad-request"),
        ("pull", {"uid": "0" * 32, "have": [], "carry": True, "wait": False}, "bad-request"),
        ("start", {"plan": {}, "secrets": {"env": {}}}, "bad-plan"),
        ("start", {"plan": {**PLAN, "grace": "30"}, "secrets": {"env": {}}}, "bad-plan"),
        ("start", {"plan": {**PLAN, "uid": ".."}, "secrets": {"env": {}}}, "bad-request"),
    ],
)
def test_invalid_request_is_refused_with_a_code_and_the_conversation_goes_on(
    post: Post, verb: str, fields: dict[str, object], code: str
) -> None:
    with pytest.raises(RunnerError) as caught:
        post.channel.ask(verb, **fields)
    assert caught.value.code == code
    assert post.channel.ask("probe")["facts"]
    assert not (post.home / "runs").exists()


@ONCE
def test_a_runner_other_than_the_promised_one_is_not_installed(post: Post) -> None:
    post.channel.hello()
    (installed,) = (post.home / "runner").iterdir()
    for wrong in (bundle.to_zip(), b"no zip at all"):
        asked = b"\0".join((bytes(post.home), b"0" * 64, b"n", b"%d" % len(wrong)))
        words = bundle.boot_words(), bundle.as_word(asked)
        stream = LocalHost().run((post.python, "-I", "-S", "-c", bundle.UNPACK, *words))
        wire.write_all(stream.stdin, wrong)
        reader = wire.FrameReader(stream.stdout)
        with pytest.raises(wire.Closed):
            reader.line()
        for fd in (stream.stdin, stream.stdout, stream.stderr):
            os.close(fd)
    assert list((post.home / "runner").iterdir()) == [installed]


def test_a_dead_interpreter_is_told_with_what_it_said(post: Post, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'libfoo.so: not found' >&2\nexit 1\n")
    broken.chmod(0o755)
    post.python = str(broken)
    with pytest.raises(UnreachableError) as caught:
        post.connect().hello()
    assert "libfoo.so: not found" in caught.value.answer


def test_an_interpreter_that_is_not_there_is_told_with_its_name(post: Post) -> None:
    post.python = "/no/such/python"
    with pytest.raises(UnreachableError) as caught:
        post.connect()
    assert "/no/such/python" in caught.value.answer + caught.value.hint


def test_noise_before_the_nonce_does_no_harm(post: Post, tmp_path: Path) -> None:
    noisy = tmp_path / "python"
    noisy.write_text(f"#!/bin/sh\nprintf 'Welcome!\\n\\0\\377 motd\\n'\nexec {post.python} \"$@\"\n")
    noisy.chmod(0o755)
    post.python = str(noisy)
    assert post.connect().hello()["protocol"] == wire.PROTOCOL


def test_content_goes_up_in_pieces_and_only_what_is_missing(post: Post) -> None:
    client = _client(post)
    big = os.urandom(3 * MIB + 17)
    files = {b"big.bin": big, b"empty": b"", b"a/b/caf\xe9": b"x", b"exactly": bytes(MIB)}
    tree = store_tree(os.fsencode(client.objects), files)
    shipment = _shipment(post, client)
    shipment.send_ahead(tree)
    assert _lacking(post.channel, client, tree) == []
    there = os.fsencode(post.home / "objects")
    assert objects.missing(there, tree) == []
    assert objects.read(there, sha256(big)) == big
    shipment.remember(tree)
    changed = store_tree(os.fsencode(client.objects), {**files, b"empty": b"one byte more"})
    assert _lacking(post.channel, client, changed) == sorted([changed, sha256(b"one byte more")])
    again = _shipment(post, client)
    again.send_ahead(changed)
    assert again.sent < 2000
    assert _lacking(post.channel, client, changed) == []
    assert list((post.home / "arriving").iterdir()) == []


def test_a_large_file_that_changed_goes_in_chunks_and_only_those_that_differ(post: Post) -> None:
    client = _client(post)
    old = os.urandom(3 * CHUNK + 100)
    new = old[: CHUNK + 5] + b"changed" + old[CHUNK + 12 :] + b"and a longer end"
    first = store_tree(os.fsencode(client.objects), {b"data.bin": old})
    shipment = _shipment(post, client)
    shipment.send_ahead(first)
    assert _lacking(post.channel, client, first) == []
    shipment.remember(first)
    second = store_tree(os.fsencode(client.objects), {b"data.bin": new})
    again = _shipment(post, client)
    again.send_ahead(second)
    assert _lacking(post.channel, client, second) == []
    assert objects.read(os.fsencode(post.home / "objects"), sha256(new)) == new
    assert again.sent < CHUNK + 1000


def test_an_upload_that_was_cut_off_goes_on_where_it_ended(post: Post) -> None:
    client = _client(post)
    big = os.urandom(5 * MIB)
    tree = store_tree(os.fsencode(client.objects), {b"big.bin": big})
    channel = post.connect()
    for at in (0, MIB, 2 * MIB):
        channel.send_ahead("put", big[at : at + MIB], digest=sha256(big), at=at, size=len(big))
    channel.send_ahead("put", b"small", digest=sha256(b"small"), at=0, size=5)
    post.forget(channel)
    channel.close()
    eventually(lambda: objects.has(os.fsencode(post.home / "objects"), sha256(b"small")))
    shipment = _shipment(post, client)
    shipment.send_ahead(tree)
    assert _lacking(post.channel, client, tree) == []
    assert 2 * MIB <= shipment.sent < 2 * MIB + 1000
    assert objects.read(os.fsencode(post.home / "objects"), sha256(big)) == big


def test_half_an_upload_that_was_damaged_is_not_believed(post: Post) -> None:
    client = _client(post)
    big = os.urandom(3 * MIB)
    tree = store_tree(os.fsencode(client.objects), {b"big.bin": big})
    post.channel.send_ahead("put", bytes(MIB), digest=sha256(big), at=0, size=len(big))
    shipment = _shipment(post, client)
    shipment.send_ahead(tree)
    answer = post.channel.ask("lacks", digests=[sha256(big)])
    assert "damaged" in str(answer["refused"])
    assert (answer["missing"], answer["partial"]) == ([sha256(big)], {})


def test_a_damaged_object_is_refused_and_the_next_one_is_not(post: Post) -> None:
    good, other = b"good content", b"other content"
    tree = store_tree(os.fsencode(_client(post).objects), {b"a": good, b"b": other})
    post.channel.send_ahead("put", b"wrong content", digest=sha256(good), at=0, size=13)
    post.channel.send_ahead("put", other, digest=sha256(other), at=0, size=len(other))
    answer = post.channel.ask("lacks", digests=[tree])
    assert sha256(good) in str(answer["refused"])
    there = os.fsencode(post.home / "objects")
    assert not objects.has(there, sha256(good))
    assert not objects.has(there, sha256(b"wrong content"))
    assert objects.read(there, sha256(other)) == other
    assert not post.channel.ask("lacks", digests=[tree])["refused"]


def test_an_upload_that_the_target_refuses_ends_with_its_words(post: Post) -> None:
    client = _client(post)
    tree = store_tree(os.fsencode(client.objects), {b"a": b"content"})
    digest = sha256(b"content")
    place = os.fsencode(post.home / "objects" / digest[:2])
    post.channel.hello()
    os.makedirs(os.path.dirname(place))
    with open(place, "wb") as in_the_way:
        in_the_way.write(b"a file where a folder must be")
    _shipment(post, client).send_ahead(tree)
    assert os.fsdecode(place) in str(post.channel.ask("lacks", digests=[tree])["refused"])


@ONCE
def test_many_refusals_do_not_block_the_conversation(post: Post) -> None:
    for _ in range(2000):
        post.channel.send_ahead("put", b"wrong", digest="0" * 64, at=0, size=5)
    assert post.channel.ask("probe")["facts"]


def _client(post: Post) -> Home:
    return Home(str(post.place / "client"), "another store")


def _shipment(post: Post, client: Home) -> Shipment:
    return Shipment(client, post.channel, "project", lambda _done, _total: None)


def _lacking(channel: RunnerChannel, client: Home, tree: str) -> list[str]:
    wanted = [part.digest for part in changed_parts(os.fsencode(client.objects), "", tree)]
    answer = channel.ask("lacks", digests=wanted)
    assert not answer["refused"]
    missing = answer["missing"]
    assert isinstance(missing, list)
    return sorted(missing)
