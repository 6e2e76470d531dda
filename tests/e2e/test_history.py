"""History: the record's shape, the list, artifacts, the index, and freeing disk space."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import eventually

if TYPE_CHECKING:
    from conftest import Desk

LOGS = """
import sys, holdfast
holdfast.log("Accuracy", float(sys.argv[1]))
for step in range(3):
    holdfast.log("loss", 1 / (step + 1), step=step)
holdfast.log("status", 99)
holdfast.log("bad", float("nan"))
"""


def test_the_record_has_the_shape_of_the_original(desk: Desk) -> None:
    desk.script(LOGS)
    desk.submit("train.py", "0.5")
    raw = desk.holdfast("history", "info", "-r", "1").out
    record = json.loads(raw)
    assert list(record) == sorted(record)
    assert record["Accuracy"] == 0.5
    assert record["loss"] == [1.0, 0.5, 1 / 3]
    assert record["bad"] is None
    assert record["status"] == "Completed"
    assert record["metrics"] == {"status": 99}
    assert record["run_id"].startswith("project_")
    assert len(record["run_id"].rpartition("_")[2]) == 13
    assert record["run_number"] == 1
    assert isinstance(record["attachments"], str)
    assert record["duration"].count(":") == 2
    assert len(record["duration"].rpartition(".")[2]) == 6
    assert record["start_time_utc"].endswith("+00:00")
    assert len(record["properties"]["CommitId"]) == 40
    assert record["arguments"] == ["0.5"]
    for guid in ("experiment_id", "user_id"):
        assert [len(part) for part in record[guid].split("-")] == [8, 4, 4, 4, 12]
    for name in ("name", "description", "parent_run_id"):
        assert record[name] is None


def test_the_queries_of_the_original_work(desk: Desk) -> None:
    desk.script(LOGS)
    desk.script("print('no metrics')", "plain.py")
    for value in ("0", "0.98", "1", "1"):
        desk.submit("train.py", value)
    desk.submit("plain.py")
    query = "@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy"
    assert desk.holdfast("history", "list", "--query", query).json == 1.0
    near = "sort_by(@[?Accuracy > `0.97`], &duration) | [*].run_number"
    assert sorted(desk.holdfast("history", "list", "--query", near).json) == [2, 3, 4]
    listed = desk.holdfast("history", "list").json
    assert [record["run_number"] for record in listed] == [5, 4, 3, 2, 1]


def test_lists_and_tables_have_a_column_in_the_list(desk: Desk) -> None:
    desk.script(
        "import holdfast\nholdfast.log('Accuracies', [0.1, 0.5, 0.4])\nholdfast.log_table('Counts', {'a': [1, 2]})\n"
    )
    desk.submit("train.py")
    titles, _, row = desk.holdfast("history", "list", "-o", "table").text.splitlines()
    assert titles.startswith("Accuracies  Counts")
    assert "0.4  table of 2 rows" in row
    assert desk.holdfast("history", "list").json[0]["Accuracies"] == [0.1, 0.5, 0.4]


def test_table_tsv_yaml_and_json(desk: Desk) -> None:
    desk.script(LOGS)
    desk.submit("train.py", "0.5")
    table = desk.holdfast("history", "list", "-o", "table").text.splitlines()
    assert [name.lower() for name in table[0].split()[:2]] == ["accuracy", "duration"]
    assert set(table[1]) <= {"-", " "}
    assert "Completed" in table[2]
    assert desk.holdfast("history", "list", "--query", "[0].run_id", "-o", "tsv").text == desk.record()["run_id"] + "\n"
    assert "run_number: 1" in desk.holdfast("history", "last", "-o", "yaml").text
    assert desk.holdfast("history", "last").json["run_number"] == 1
    assert b"\x1b" not in desk.holdfast("history", "last", "-o", "jsonc").out


def test_a_run_may_be_named_in_many_ways(desk: Desk) -> None:
    desk.script("import sys; print(sys.argv[1])")
    for word in ("one", "two"):
        desk.submit("train.py", word)
    record = desk.record("1")
    for name in ("1", record["run_id"], record["run_id"][:-1], record["uid"], record["uid"][:12]):
        shown = desk.holdfast("logs", "-r", name)
        assert shown.out in (b"one\n", b"two\n") if name == record["run_id"][:-1] else shown.out == b"one\n", name
    assert desk.holdfast("logs", "-r", "last").out == b"two\n"
    missing = desk.holdfast("logs", "-r", "77")
    assert missing.code == 2
    assert missing.out == b""
    assert missing.err.startswith("ERROR: this project has no run 77")
    several = desk.holdfast("logs", "-r", "project_")
    assert several.code == 2
    assert "several" in several.err


def test_artifacts_are_printed_and_downloaded_byte_for_byte(desk: Desk, tmp_path: Path) -> None:
    payload = bytes(range(256)) * 4
    desk.script(
        "import sys; d = bytes(range(256)) * 4; sys.stdout.buffer.write(d); open('outputs/m.bin', 'wb').write(d)"
    )
    desk.submit("train.py")
    assert desk.holdfast("history", "info", "-r", "1", "--artifact", "driver_log").out == payload
    assert desk.holdfast("history", "info", "-r", "1", "-a", "outputs/m.bin").out == payload
    refused = desk.holdfast("history", "info", "-r", "1", "-a", "outputs/../../run.json")
    assert refused.code == 2
    assert refused.out == b""
    target = tmp_path / "here"
    assert desk.holdfast("history", "download", "-r", "1", "-d", str(target)).code == 0
    assert (target / "outputs" / "m.bin").read_bytes() == payload
    assert (target / "driver_log.txt").read_bytes() == payload
    again = desk.holdfast("history", "download", "-r", "1", "-d", str(target))
    assert again.code == 2
    assert "--overwrite" in again.err
    assert desk.holdfast("history", "download", "-r", "1", "-d", str(target), "--overwrite").code == 0


def test_status_prints_the_lines_that_old_batch_files_parse(desk: Desk) -> None:
    desk.script("")
    desk.submit("train.py")
    result = desk.holdfast("experiment", "status", "-r", desk.record()["run_id"], "-t", "local")
    assert "state : Completed" in result.text.splitlines()


def test_the_index_is_rebuilt_with_the_same_answers(desk: Desk) -> None:
    desk.script(LOGS)
    for value in ("0.1", "0.2", "0.3"):
        desk.submit("train.py", value)
    before = desk.holdfast("history", "list").json
    assert desk.holdfast("store", "reindex").code == 0
    assert desk.holdfast("history", "list").json == before
    (desk.home / "index.sqlite").write_bytes(b"garbage" * 1000)
    assert desk.holdfast("history", "list").json == before
    (desk.home / "index.sqlite").unlink()
    assert desk.holdfast("history", "list").json == before


def test_one_damaged_run_never_hides_another(desk: Desk) -> None:
    desk.script(LOGS)
    for value in ("0.1", "0.2", "0.3"):
        desk.submit("train.py", value)
    good = {number: desk.listed(str(number)) for number in (1, 3)}
    broken = desk.home / "runs" / desk.record("2")["uid"]
    for name, content in (("run.json", b'{"torn'), ("a1/events.jsonl", b"\0\xff not json\n")):
        (broken / name).write_bytes(content)
    for file in (broken / "a1" / "metrics").iterdir():
        file.write_bytes(os.urandom(200))
    assert desk.holdfast("store", "reindex").code == 0
    listed = {record["run_number"]: record for record in desk.holdfast("history", "list").json}
    assert listed[1] == good[1]
    assert listed[3] == good[3]
    everywhere = desk.holdfast("history", "list", "--all").json
    damaged = next(record for record in everywhere if record["uid"] == broken.name)
    assert damaged["status"] == "Damaged"
    assert "run.json" in damaged["reason"]


def test_delete_asks_and_numbers_are_not_given_out_twice(desk: Desk) -> None:
    desk.script("")
    desk.submit("train.py")
    desk.submit("train.py")
    refused = desk.holdfast("history", "delete", "-r", "2")
    assert refused.code == 2
    assert len(desk.holdfast("history", "list").json) == 2
    assert desk.holdfast("history", "delete", "-r", "2", "--yes").code == 0
    assert [record["run_number"] for record in desk.holdfast("history", "list").json] == [1]
    desk.submit("train.py")
    assert desk.record()["run_number"] == 3


def test_a_number_never_means_the_beginning_of_some_other_runs_uid(desk: Desk) -> None:
    """Once a run is deleted, asking for its number again must not reach any other run."""
    desk.script("")
    for _ in range(4):
        desk.submit("train.py")
    uids = {record["uid"] for record in desk.holdfast("history", "list").json}
    for first in {uid[0] for uid in uids if uid[0] in "56789"} | {"7"}:
        refused = desk.holdfast("history", "delete", "-r", first, "--yes")
        assert refused.code == 2, refused
    assert {record["uid"] for record in desk.holdfast("history", "list").json} == uids


def test_numbers_go_on_when_their_note_is_lost(desk: Desk) -> None:
    desk.script("")
    desk.submit("train.py")
    desk.submit("train.py")
    shutil.rmtree(desk.home / "numbers")
    desk.submit("train.py")
    assert desk.record()["run_number"] == 3


def test_du_and_prune_free_disk_space(desk: Desk) -> None:
    desk.script("raise SystemExit(1)")
    (desk.project / "big.bin").write_bytes(os.urandom(300_000))
    desk.submit("train.py")
    (desk.project / "big.bin").unlink()
    desk.submit("train.py")
    used = {row["what"]: row["bytes"] for row in desk.holdfast("du").json}
    assert used["objects"] >= 300_000
    assert used["work"] >= 300_000
    _age(desk, *desk.home.rglob("events.jsonl"), *(desk.home / "objects").rglob("*"))
    planned = {row["what"]: row["count"] for row in desk.holdfast("store", "prune", "--dry-run").json}
    assert planned["work folders"] == 2
    assert planned["objects"] == 0
    after = {row["what"]: row["bytes"] for row in desk.holdfast("du").json}
    assert {**after, "other": 0} == {**used, "other": 0}  # the index is made on the way
    desk.holdfast("history", "delete", "-r", "1", "--yes", "--now")
    freed = {row["what"]: row for row in desk.holdfast("store", "prune").json}
    assert freed["work folders"]["count"] == 1
    assert freed["objects"]["bytes"] >= 300_000
    assert {row["what"]: row["bytes"] for row in desk.holdfast("du").json}["objects"] < 100_000
    (desk.project / "big.bin").write_bytes(b"back again")
    assert desk.submit("train.py").code == 1


def test_prune_keeps_old_objects_that_a_submit_has_just_found(desk: Desk) -> None:
    desk.script("print('needed')")
    assert desk.submit("train.py").code == 0
    ids = desk.home / "locks" / "ids"
    assert desk.holdfast("history", "delete", "-r", "1", "--yes", "--now").code == 0
    _age(desk, *(desk.home / "objects").rglob("*"))
    with ids.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        client = desk.start("submit", "-c", "local", "train.py")
        eventually(lambda: not _can_remove(desk))
        row = next(row for row in desk.holdfast("store", "prune").json if row["what"] == "objects")
        assert (row["count"], row["note"]) == (0, "nothing removed: another command stores or needs objects now")
    out, err = client.communicate(timeout=60)
    assert (client.returncode, b"needed" in out) == (0, True), err
    assert _can_remove(desk)


def _can_remove(desk: Desk) -> bool:
    with (desk.home / "objects" / "tmp" / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_prune_removes_unused_runners(desk: Desk) -> None:
    desk.script("")
    desk.submit("train.py")
    folder = desk.home / "runner"
    (current,) = folder.iterdir()
    old = folder / ("0" * 64)
    shutil.copytree(current, old)
    _age(desk, current, old)
    desk.holdfast("store", "prune")
    assert list(folder.iterdir()) == [current]
    assert desk.submit("train.py").code == 0


def test_retention_deletes_old_runs_only_when_set(desk: Desk) -> None:
    desk.script("")
    desk.submit("train.py")
    desk.submit("train.py")
    _age(desk, desk.attempt("1") / "events.jsonl")
    desk.holdfast("store", "prune")
    assert len(desk.holdfast("history", "list").json) == 2
    assert desk.holdfast("config", "keepRuns", "30d").code == 0
    desk.holdfast("store", "prune")
    assert [record["run_number"] for record in desk.holdfast("history", "list").json] == [2]


def _age(desk: Desk, *paths: Path, days: float = 40) -> None:
    """As if these had last been changed so long ago, in a store that is older still."""
    now = time.time()
    assert desk.holdfast("store", "prune", "--dry-run").code == 0  # notes the clock
    os.utime(desk.home / "store.json", (now, now - 400 * 86400))
    for path in paths:
        os.utime(path, (now, now - days * 86400))


def test_settings_are_checked(desk: Desk) -> None:
    assert desk.holdfast("config", "keepRuns", "soon").code == 65
    assert desk.holdfast("config", "noSuch", "1").code == 2
    assert desk.holdfast("config", "keepWork", "14d").code == 0
    assert desk.holdfast("config", "keepWork").text == "14d\n"
    assert desk.holdfast("config", "--unset", "keepWork").code == 0
    assert desk.holdfast("config", "keepWork").text == "7d\n"


def test_twenty_submits_at_once_all_get_their_own_number(desk: Desk) -> None:
    desk.script("import sys; print(sys.argv[1])")
    clients = [desk.start("submit", "-c", "local", "train.py", str(number)) for number in range(20)]
    for client in clients:
        _, err = client.communicate(timeout=120)
        assert client.returncode == 0, err
    listed = desk.holdfast("history", "list").json
    assert sorted(record["run_number"] for record in listed) == list(range(1, 21))
    assert len({record["run_id"] for record in listed}) == 20
    eventually(lambda: all(r["status"] == "Completed" for r in desk.holdfast("history", "list").json))
