"""A run as one signed file: what is in it, who may have signed it, and that no change of it goes unseen."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from holdfast.environments import lock
from holdfast.environments.spec import Interpreter
from holdfast.errors import PassportError
from holdfast.passport import archive, signing
from holdfast.passport.contents import environment_lock
from holdfast.passport.verify import verify
from holdfast.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Desk

SCRIPT = """
import holdfast, os
holdfast.log("acc", 0.75)
print("trained")
os.makedirs("outputs", exist_ok=True)
open("outputs/model.bin", "wb").write(b"weights" * 100)
"""
LAST = ("index.html", "manifest.json", "manifest.json.sig")


@pytest.fixture
def signer(desk: Desk) -> Path:
    return make_key(desk.user_home / ".ssh" / "id_ed25519")


@pytest.fixture
def passport(desk: Desk, signer: Path) -> Path:
    desk.script(SCRIPT)
    desk.script("#!/bin/sh\n", "tools/go.sh").chmod(0o755)
    (desk.project / "link").symlink_to("train.py")
    (desk.project / os.fsdecode(b"odd:\xff")).write_text("odd")
    desk.submit("train.py", "--lr", "0.1")
    path = desk.project / "run.zip"
    done = desk.holdfast("passport", "--to", str(path))
    assert (done.code, done.text) == (0, f"{path}\n"), done.err
    return path


def make_key(path: Path, kind: str = "ed25519") -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Read by Python's own zip reader: it is an archive like any other."""
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
        return {name: opened.read(name) for name in opened.namelist()}


def packed(files: dict[str, bytes]) -> bytes:
    """A passport as we would have written it, of any content: what a forger who knows the format can do."""
    target = io.BytesIO()
    writer = archive.Writer(target)
    for name in (*sorted(set(files) - set(LAST)), *(name for name in LAST if name in files)):
        writer.add(name, len(files[name]), (files[name],))
    writer.finish()
    return target.getvalue()


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_passport_contains_all_files_of_the_run(desk: Desk, passport: Path) -> None:
    files = contents(passport)
    run = desk.home / "runs" / str(desk.record()["uid"])
    for name in ("run.json", "a1/plan.json", "a1/events.jsonl", "a1/log", "a1/outputs.jsonl"):
        assert files[f"run/{name}"] == (run / name).read_bytes()
    assert [name for name in files if name.startswith("run/a1/metrics/") and name.endswith(".m")]
    assert files["code/train.py"].decode() == SCRIPT
    assert json.loads(files["record.json"])["acc"] == 0.75
    manifest = json.loads(files["manifest.json"])
    rows = {row["path"]: row for row in manifest["code"]}
    assert rows["tools/go.sh"]["executable"] is True
    assert rows["link"] == {"path": "link", "link": "train.py"}
    assert files[rows["odd:\udcff"]["name"]] == b"odd"
    page = files["index.html"].decode()
    assert "train.py" in page
    assert "default-src 'none'" in page
    assert not any(b"weightsweights" in data for data in files.values())
    assert packed(files) == passport.read_bytes()


def test_it_is_checked_by_key_by_list_and_without_either(desk: Desk, passport: Path, signer: Path) -> None:
    elsewhere = {"HOLDFAST_HOME": str(desk.project / "nowhere")}
    told = desk.holdfast("passport", "verify", str(passport), "--key", f"{signer}.pub", env=elsewhere)
    assert told.code == 0
    assert "Completed, exit code 0" in told.text
    assert told.err == ""
    signers = desk.project / "signers"
    public = signer.with_suffix(".pub").read_text()
    signers.write_text(f'ada@example.org namespaces="holdfast-passport" {public}')
    told = desk.holdfast("passport", "verify", str(passport), "--signer", str(signers), "-o", "json", env=elsewhere)
    assert told.json["signer"] == "ada@example.org"
    assert told.json["signed_utc"]
    told = desk.holdfast("passport", "verify", str(passport), env=elsewhere)
    assert (told.code, "the signer was not verified" in told.err) == (0, True)
    assert not (desk.project / "nowhere").exists()


def test_another_key_is_refused(desk: Desk, passport: Path) -> None:
    other = make_key(desk.project / "other")
    refused = desk.holdfast("passport", "verify", str(passport), "--key", f"{other}.pub")
    assert (refused.code, "by another key" in refused.err) == (80, True)
    signers = desk.project / "signers"
    signers.write_text(f"eve@example.org {other.with_suffix('.pub').read_text()}")
    refused = desk.holdfast("passport", "verify", str(passport), "--signer", str(signers))
    assert (refused.code, "the signer is not in this list" in refused.err) == (80, True)


def test_a_key_for_other_things_does_not_count(desk: Desk, passport: Path, signer: Path) -> None:
    """The same key with the same list, where the list allows it to sign commits only."""
    signers = desk.project / "signers"
    signers.write_text(f'ada@example.org namespaces="git" {signer.with_suffix(".pub").read_text()}')
    assert desk.holdfast("passport", "verify", str(passport), "--signer", str(signers)).code == 80


def test_a_thousand_flipped_bits_are_all_seen(passport: Path, tmp_path: Path) -> None:
    whole = passport.read_bytes()
    changed = tmp_path / "changed.zip"
    bits = random.Random(1).sample(range(len(whole) * 8), 1000)
    passed = []
    for bit in bits:
        changed.write_bytes(flipped(whole, bit))
        if is_accepted(changed):
            passed.append(bit)
    assert passed == []


def test_change_with_recomputed_zip_checksums_is_detected(passport: Path, tmp_path: Path) -> None:
    """Checksums and directory made anew around each change: only hashes and signature are left to see it."""
    files = contents(passport)
    changed = tmp_path / "changed.zip"
    changed.write_bytes(packed(files))
    assert is_accepted(changed)
    passed = []
    for number, (name, bit) in enumerate(changes(files)):
        changed.write_bytes(packed({**files, name: flipped(files[name], bit)}))
        if is_accepted(changed):
            passed.append((number, name, bit))
    assert passed == []


def changes(files: dict[str, bytes]) -> Iterator[tuple[str, int]]:
    chosen = random.Random(2)
    for name, data in files.items():
        count = 300 if name == "manifest.json.sig" else 100 if name == "manifest.json" else 12
        for _ in range(count if data else 0):
            yield name, chosen.randrange(len(data) * 8)
    # A line's end that became another blank would still be a signature for ssh-keygen.
    yield from (("manifest.json.sig", at * 8) for at, byte in enumerate(files["manifest.json.sig"]) if byte == 0x0A)


def test_files_added_removed_renamed_or_swapped_are_seen(passport: Path, tmp_path: Path) -> None:
    files = contents(passport)
    forgeries = [
        {**files, "code/more.py": b"import os"},
        {**files, "zzz": b""},
        *({name: data for name, data in files.items() if name != gone} for gone in files),
        {**files, "run/a1/log": files["code/train.py"], "code/train.py": files["run/a1/log"]},
        {("code/Train.py" if name == "code/train.py" else name): data for name, data in files.items()},
    ]
    changed = tmp_path / "changed.zip"
    for number, forged in enumerate(forgeries):
        changed.write_bytes(packed(forged))
        assert not is_accepted(changed), number


def test_what_a_zip_can_hide_is_seen(passport: Path, tmp_path: Path) -> None:
    files, whole = contents(passport), passport.read_bytes()
    changed = tmp_path / "changed.zip"
    forgeries = {"appended": whole + b"x", "prepended": b"x" + whole, "empty": b"", "doubled": whole + whole}
    forgeries |= {f"cut at {at}": whole[:at] for at in (1, 29, 100, len(whole) // 2, len(whole) - 22, len(whole) - 1)}
    for name, method in (("comment", zipfile.ZIP_STORED), ("packed", zipfile.ZIP_DEFLATED)):
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as made:
            for file, data in files.items():
                made.writestr(zipfile.ZipInfo(file, (1980, 1, 1, 0, 0, 0)), data, method)
            made.comment = b"hello" if name == "comment" else b""
        forgeries[name] = target.getvalue()
    for name, data in forgeries.items():
        changed.write_bytes(data)
        assert not is_accepted(changed), name


def is_accepted(path: Path) -> bool:
    try:
        verify(str(path))
    except PassportError:
        return False
    return True


def test_what_a_signer_cannot_make_up(passport: Path, signer: Path, tmp_path: Path) -> None:
    """Signed with the right key, but the code is not the run's, or the log not the one that the runner closed."""
    files = contents(passport)
    changed = tmp_path / "changed.zip"
    for name, words in (
        ("code/train.py", "does not match the recorded snapshot of the run"),
        ("run/a1/log", "does not match the recorded end of the run"),
    ):
        forged = {**files, name: files[name] + b"\n"}
        manifest = json.loads(files["manifest.json"])
        forged_bytes = packed({key: forged[key] for key in forged if key not in LAST[1:]})
        entries = archive_rows(forged_bytes, tmp_path)
        manifest["files"] = [{**row, **entries[row["name"]]} for row in manifest["files"]]
        forged["manifest.json"] = json.dumps(manifest, indent=1, sort_keys=True).encode()
        forged["manifest.json.sig"] = signing.sign(forged["manifest.json"], str(signer))
        changed.write_bytes(packed(forged))
        with pytest.raises(PassportError, match=words):
            verify(str(changed))


def archive_rows(data: bytes, folder: Path) -> dict[str, dict[str, object]]:
    entries = archive.read(io.BytesIO(data), lambda _name, _block: None)
    return {entry.name: {"size": entry.size, "sha256": entry.sha256} for entry in entries}


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_other_kinds_of_keys(desk: Desk, kind: str) -> None:
    key = make_key(desk.project.parent / "key", kind)
    desk.script("print('hello')")
    desk.submit("train.py")
    assert desk.holdfast("passport", "--to", "p.zip", "--key", str(key)).code == 0
    assert desk.holdfast("passport", "verify", "p.zip", "--key", f"{key}.pub").code == 0


def test_a_key_that_only_an_agent_has(desk: Desk) -> None:
    key = make_key(desk.project.parent / "key")
    socket = str(desk.project.parent / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as agent:
        try:
            from conftest import eventually

            eventually(lambda: os.path.exists(socket))
            env = {"SSH_AUTH_SOCK": socket}
            subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, **env}, check=True)
            key.unlink()
            desk.script("print('hello')")
            desk.submit("train.py")
            done = desk.holdfast("passport", "--to", "p.zip", "--key", f"{key}.pub", env=env)
            assert done.code == 0, done.err
        finally:
            agent.terminate()
    assert desk.holdfast("passport", "verify", "p.zip", "--key", f"{key}.pub").code == 0
    refused = desk.holdfast("passport", "--to", "q.zip", "--key", f"{key}.pub")
    assert (refused.code, "could not be signed" in refused.err) == (2, True)
    assert not (desk.project / "q.zip").exists()


def test_what_is_not_signed(desk: Desk, signer: Path) -> None:
    desk.script("import time; print('hello', flush=True); time.sleep(60)")
    desk.submit("--no-wait", "train.py")
    refused = desk.holdfast("passport", "--to", "p.zip")
    assert (refused.code, "has ended" in refused.err) == (2, True)
    desk.holdfast("cancel")
    desk.wait_for_end()
    with (desk.attempt() / "log").open("ab") as log:
        log.write(b"and more\n")
    refused = desk.holdfast("passport", "--to", "p.zip")
    assert (refused.code, "no passport is written" in refused.err) == (74, True)
    assert sorted(desk.project.glob("*.zip*")) == []


def test_nothing_is_overwritten(desk: Desk, passport: Path) -> None:
    before = passport.read_bytes()
    assert desk.holdfast("passport", "--to", str(passport)).code == 2
    assert passport.read_bytes() == before


def test_without_a_key_it_says_what_to_do(desk: Desk) -> None:
    desk.script("print('hello')")
    desk.submit("train.py")
    refused = desk.holdfast("passport")
    assert (refused.code, "ssh-keygen -t ed25519" in refused.err) == (2, True)
    assert desk.holdfast("passport", "verify", "nothing.zip").code == 2


def test_the_lock_of_the_environment_is_found(tmp_path: Path) -> None:
    """In the environment itself, or among what was solved for a machine elsewhere; never another one."""
    folder = "/far/away/envs"
    made = lock.Lock("a" * 64, "linux-64", Interpreter("3.11.7", "x"), pip=("numpy==2.0 --hash=sha256:" + "b" * 64,))
    key = lock.env_key(made, folder)
    home = Home(str(tmp_path), "")
    plan: dict[str, object] = {"environment": {"key": key, "prefix": f"{folder}/{key}"}}
    assert environment_lock(home, plan) == ""
    (tmp_path / "solved").mkdir()
    (tmp_path / "solved" / "other.json").write_text(lock.to_text(made._replace(pip=())))
    assert environment_lock(home, plan) == ""
    (tmp_path / "solved" / "spec.json").write_text(lock.to_text(made))
    assert environment_lock(home, plan) == lock.to_text(made)
    assert environment_lock(home, {"environment": {"key": f"{key}-0123abcd", "prefix": f"{folder}/{key}-0123abcd"}})
    assert environment_lock(home, {"environment": None}) == ""


def test_more_files_than_an_old_zip_can_count(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with path.open("wb") as target:
        writer = archive.Writer(target)
        for number in range(65_540):
            writer.add(f"{number:06}", 1, (b"x",))
        writer.finish()
    assert len(contents(path)) == 65_540
    with path.open("rb") as source:
        assert len(archive.read(source, lambda _name, _block: None)) == 65_540
