"""The store of an earlier version, used by the present one and afterwards by the earlier one again."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from compatibility.conftest import expected
from conftest import Desk, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from compatibility.conftest import Earlier, KeptStore

# Sentences for people, and judgements; a later version may word and make them better.
WORDING = {"config": {"what"}, "trust": {"value"}, "compare": {"sections"}, "metrics": {"best"}}


def test_present_client_prints_what_the_earlier_one_printed(kept: KeptStore, earlier: Earlier) -> None:
    differences = []
    for question in expected(earlier):
        result = kept.holdfast(*question["command"])
        if result.code != question["code"] or not same(question["command"], question["output"], result.text):
            differences.append((question["command"], result))
    assert differences == []


def test_compare_shows_parameters_and_metrics_of_kept_runs(kept: KeptStore) -> None:
    sections = kept.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "json").json["sections"]
    rows = {row["name"]: row["values"] for section in sections for row in section["rows"]}
    assert rows["lr"] == [0.1, 0.01]
    assert rows["epochs"] == [3, 4]
    assert rows["accuracy"] == [0.9, 0.99]


def test_store_of_earlier_version_is_whole_and_its_index_can_be_rebuilt(kept: KeptStore, earlier: Earlier) -> None:
    finished = ("history", "list", "--archived", "--where", "run_number < 10", "-o", "json")
    before = kept.holdfast(*finished).json
    assert len(before) == 8
    verified = kept.holdfast("store", "verify")
    assert verified.code == 0, verified
    assert kept.holdfast("store", "reindex").code == 0
    assert kept.holdfast(*finished).json == before
    (kept.home / "index.sqlite").unlink()
    for row, now in zip(earlier.client(kept).holdfast(*finished).json, before, strict=True):
        assert agrees(row, now), (row, now)  # later versions add fields


def test_code_and_outputs_of_kept_runs_come_back(kept: KeptStore, tmp_path: Path) -> None:
    assert kept.holdfast("restore", "-r", "1", "--to", str(tmp_path / "code")).code == 0
    assert (tmp_path / "code/lib/helper.py").read_text() == "VALUE = 1\n"
    assert kept.holdfast("restore", "-r", "1").code == 0
    assert (kept.project / "lib/helper.py").read_text() == "VALUE = 1\n"
    assert kept.holdfast("diff", "-r", "2").code == 1
    # Run 6 was on another machine, 7 was imported.
    for number, content in (("1", b"weights 0.1"), ("6", b"weights 0.5"), ("7", b"weights 0.2")):
        target = tmp_path / number
        assert kept.holdfast("history", "download", "-r", number, "-d", str(target)).code == 0
        assert (target / "outputs/model.bin").read_bytes() == content
        assert (target / "outputs/deep/café.txt").read_text() == "an output\n"
    assert kept.holdfast("return", "-r", "6").code == 0
    assert (kept.project / "outputs/model.bin").read_bytes() == b"weights 0.5"


def test_assets_tags_notes_trash_and_settings_go_on_in_both_versions(kept: KeptStore, earlier: Earlier) -> None:
    old = earlier.client(kept)
    link = ("asset", "download", "-l", "assets/digits.link", "-d", "out")
    assert kept.holdfast(*link).code == 0
    assert (kept.project / "out/digits").read_bytes() == b"weights 0.01"
    for client, run in ((kept, "6"), (old, "7")):
        done = client.holdfast("history", "promote", "-r", run, "-ap", "outputs/model.bin", "-n", "digits")
        assert done.code == 0, done
    for client, tag in ((kept, "present=1"), (old, "earlier=1")):
        assert client.holdfast("history", "tag", "-r", "1", tag).code == 0
    assert kept.holdfast("history", "note", "-r", "1", "noted later").code == 0
    assert kept.holdfast("history", "undelete", "-r", "9").code == 0
    assert kept.holdfast("history", "unarchive", "-r", "8").code == 0
    assert kept.holdfast("config", "keepWork", "4d").code == 0
    for client in (kept, old):
        assets = client.holdfast("asset", "list", "-o", "json").json
        assert [row["version"] for row in assets] == ["4", "3", "2", "1"]
        record = client.record("1")
        assert record["description"] == "noted later"
        assert record["tags"] == {"dataset": "v3", "kept": True, "present": 1, "earlier": 1}
        rows = client.holdfast("history", "list", "-o", "json").json
        assert sorted(row["run_number"] for row in rows) == list(range(1, 11))
        assert "4d" in client.holdfast("config", "keepWork").text


def test_new_runs_continue_the_history_in_both_versions(kept: KeptStore, earlier: Earlier) -> None:
    old = earlier.client(kept)
    for client, number in ((kept, 11), (old, 12), (kept, 13)):
        result = client.submit("train.py", "--lr", "0.3", "--epochs", "2")
        assert result.code == 0, result
        record = client.record()
        assert (record["run_number"], record["status"], record["accuracy"]) == (number, "Completed", 0.7)
    for run in ("11", "12", "13"):
        assert agrees(old.record(run), kept.record(run)), run
        for words in (("logs",), ("history", "metrics", "-o", "json"), ("history", "info", "-a", "outputs/model.bin")):
            answers = [client.holdfast(*words, "-r", run) for client in (kept, old)]
            assert answers[0].code == answers[1].code == 0
            assert same(list(words), answers[1].text, answers[0].text), (words, answers)
    assert kept.holdfast("diff", "-r", "1", "-r", "12").code == old.holdfast("diff", "-r", "1", "-r", "11").code == 1
    for client in (kept, old):
        verified = client.holdfast("store", "verify")
        assert verified.code == 0, verified


def test_exported_runs_and_passports_are_read_by_the_other_version(
    kept: KeptStore, earlier: Earlier, tmp_path: Path
) -> None:
    key = kept.user_home / "key"
    old = earlier.client(kept)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", str(key)], check=True)
    for number, (writer, reader) in enumerate(((old, kept), (kept, old))):
        place = tmp_path / f"other{number}"
        place.mkdir()
        other = Desk(place)
        other.command = reader.command
        (other.project / ".holdfast-project").write_bytes((kept.project / ".holdfast-project").read_bytes())
        archive, passport = place / "runs.zip", place / "run.passport.zip"
        assert writer.holdfast("history", "export", "-r", "1", "-r", "6", "--to", str(archive)).code == 0
        taken = other.holdfast("history", "import", str(archive))
        assert taken.code == 0, taken
        listed = other.holdfast("history", "list", "-o", "json").json
        assert [row["accuracy"] for row in listed] == [0.5, 0.9]
        signed = writer.holdfast("passport", "-r", "1", "--to", str(passport), "--key", str(key))
        assert signed.code == 0, signed
        verified = reader.holdfast("passport", "verify", str(passport), "--key", f"{key}.pub")
        assert verified.code == 0, verified


def test_lost_run_is_started_again_by_the_present_client(kept: KeptStore, earlier: Earlier) -> None:
    (kept.user_home / "go").touch()
    assert kept.record("5")["status"] == "Lost"
    result = kept.holdfast("retry", "-r", "5")
    assert result.code == 0, result
    old = earlier.client(kept)
    eventually(lambda: kept.record("5")["status"] == "Completed")
    assert old.record("5")["status"] == "Completed"
    assert old.holdfast("logs", "-r", "5").text == kept.holdfast("logs", "-r", "5").text == "waiting\nwent on\n"


def test_unfinished_run_of_another_machine_is_shown_and_can_be_closed(kept: KeptStore, earlier: Earlier) -> None:
    old = earlier.client(kept)
    shown = kept.holdfast("history", "info", "-r", "10", "-o", "json")
    before = shown.json
    assert "another node (laptop)" in shown.err
    assert "malformed" not in shown.err
    assert before["status"] == old.record("10")["status"] == "Running"
    assert before["end_time_utc"] is None
    assert kept.holdfast("logs", "-r", "10").text == "waiting\n"
    ended = kept.holdfast("cancel", "-r", "10")
    assert ended.code == 0, ended
    assert "already ended" not in ended.err
    assert kept.record("10")["status"] == old.record("10")["status"] == "Canceled"
    assert kept.record("10")["end_time_utc"] is not None


def same(command: list[str], before: str, now: str) -> bool:
    """Whether the output is the same, or as JSON has at least what it had."""
    if "json" not in command:
        return before == now
    ignored: set[str] = set().union(*(names for word, names in WORDING.items() if word in command))
    old, new = json.loads(before), json.loads(now)
    if "list" in command and "history" in command:
        known = {row["uid"] for row in old}
        new = [row for row in new if row["uid"] in known]
    if command[0] == "config":  # later versions add settings
        known = {row["setting"] for row in old}
        new = [row for row in new if row["setting"] in known]
    if command[:2] == ["computetarget", "list"]:  # and list targets that need no file
        new = [name for name in new if name in old]
    return agrees(old, new, ignored)


def agrees(before: Any, now: Any, ignored: set[str] | None = None) -> bool:
    """Whether everything in ``before`` is in ``now`` too, which may have more keys."""
    ignored = ignored or set()
    if isinstance(before, dict) and isinstance(now, dict):
        names = before.keys() - ignored
        return names <= now.keys() and all(agrees(before[name], now[name], ignored) for name in names)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(lambda old, new: agrees(old, new, ignored), before, now))
    return bool(before == now)
