"""The first words, the verbs, and content on its way in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, post_fixture, sha256, store_tree  # noqa: F401

from holdfast.engine import bundle
from holdfast.engine.submit import send_objects
from holdfast.errors import InternalError, UnreachableError
from holdfast.hosts.local import LocalHost
from holdfast.runner import objects, wire
from holdfast.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.channel import RunnerChannel

MIB = 1024 * 1024


def test_hello_says_who_is_there(post: Post) -> None:
    hello = post.channel.hello()
    assert hello["protocol"] == wire.PROTOCOL
    assert hello["host"] == os.uname().nodename
    assert str(hello["python"]).rsplit(".", 1)[0] in post.python
    again = post.connect().hello()
    assert again == hello


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
    ("verb", "fields"),
    [
        ("dance", {}),
        ("need", {}),
        ("need", {"tree": "../../etc/passwd"}),
        ("look", {"tickets": ["../../etc/a1"]}),
        ("pull", {"uid": "0" * 32, "have": [], "carry": True, "wait": False}),
        ("start", {"plan": {}, "secrets": {"env": {}}}),
        ("start", {"plan": {"uid": "..", "attempt": "a1"}, "secrets": {"env": []}}),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_and_the_talk_goes_on(
    post: Post, verb: str, fields: dict[str, object]
) -> None:
    with pytest.raises(InternalError):
        post.channel.ask(verb, **fields)
    assert post.channel.ask("probe")["facts"]


@ONCE
def test_a_runner_other_than_the_promised_one_is_not_installed(post: Post) -> None:
    post.channel.hello()
    (installed,) = (post.home / "runner").iterdir()
    for wrong in (bundle.to_zip(), b"no zip at all"):
        stream = LocalHost().run((post.python, "-I", "-S", "-c", bundle.boot_source()))
        asked = {"home": str(post.home), "runner": "0" * 64, "nonce": "n", "size": len(wrong)}
        wire.write_all(stream.stdin, wire.dumps(asked) + b"\n" + wrong)
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
    send_objects(client, post.channel, tree)
    there = os.fsencode(post.home / "objects")
    assert objects.missing(there, tree) == []
    assert objects.read(there, sha256(big)) == big
    changed = store_tree(os.fsencode(client.objects), {**files, b"empty": b"one byte more"})
    assert _missing(post.channel, changed) == [changed]
    send_objects(client, post.channel, changed)
    assert objects.missing(there, changed) == []
    assert [path.name for path in post.home.iterdir() if "arriving" in path.name] == []


def test_a_damaged_object_is_refused_and_the_next_one_is_not(post: Post) -> None:
    good, other = b"good content", b"other content"
    tree = store_tree(os.fsencode(_client(post).objects), {b"a": good, b"b": other})
    post.channel.send_ahead("put", b"wrong content", digest=sha256(good), last=True)
    post.channel.send_ahead("put", other, digest=sha256(other), last=True)
    answer = post.channel.ask("need", tree=tree)
    assert sha256(good) in str(answer["refused"])
    there = os.fsencode(post.home / "objects")
    assert not objects.has(there, sha256(good))
    assert not objects.has(there, sha256(b"wrong content"))
    assert objects.read(there, sha256(other)) == other
    assert not post.channel.ask("need", tree=tree)["refused"]


def test_an_upload_that_the_target_refuses_ends_with_its_words(post: Post) -> None:
    client = _client(post)
    tree = store_tree(os.fsencode(client.objects), {b"a": b"content"})
    digest = sha256(b"content")
    place = os.fsencode(post.home / "objects" / digest[:2])
    post.channel.hello()
    os.makedirs(os.path.dirname(place))
    with open(place, "wb") as in_the_way:
        in_the_way.write(b"a file where a folder must be")
    with pytest.raises(UnreachableError) as caught:
        send_objects(client, post.channel, tree)
    assert os.fsdecode(place) in caught.value.answer


@ONCE
def test_many_refusals_do_not_block_the_conversation(post: Post) -> None:
    for _ in range(2000):
        post.channel.send_ahead("put", b"wrong", digest="0" * 64, last=True)
    assert post.channel.ask("probe")["facts"]


def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(post: Post) -> None:
    channel = post.connect()
    channel.send_ahead("put", bytes(MIB), digest="0" * 64, last=False)
    assert channel.ask("probe")["facts"]
    before = sorted(path.name for path in post.home.iterdir())
    assert not [name for name in before if "arriving" in name]


def _client(post: Post) -> Home:
    return Home(str(post.place / "client"), "another store")


def _missing(channel: RunnerChannel, tree: str) -> list[str]:
    missing = channel.ask("need", tree=tree)["missing"]
    assert isinstance(missing, list)
    return missing
