"""Every file of a store cut and damaged, some hundred times; ``make soak`` does it many thousand times."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import seeds
from disks.damage import LOOKS, Case, Stage, judge
from holdfast.runner.store.jsonl import sealed
from security.project_files import memory

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES, PARTS = 700, 4  # each part within the time limit of a test


@pytest.fixture(name="stage", scope="module")
def stage_fixture() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        stage = Stage(Path(folder))
        yield stage
        stage.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_files_cost_what_they_held_and_no_more(stage: Stage, part: int) -> None:
    found = [wrong for case in list(stage.cases(CASES, seeds.seed()))[part::PARTS] for wrong in judge(stage, case)]
    assert found == [], "\n".join(found[:20])


def test_cuts_reach_every_byte_of_every_file_of_the_store(stage: Stage) -> None:
    cuts: dict[tuple[str, bytes], set[int]] = {}
    for case in stage.cuts():
        cuts.setdefault((Path(case.file).name, (stage.sound / case.file).read_bytes()), set()).add(case.at)
    files = {(Path(file).name, (stage.sound / file).read_bytes()) for file in stage.files()}
    assert cuts == {(name, content): set(range(len(content))) for name, content in files}


@pytest.mark.parametrize("part", range(PARTS))
def test_cut_files_cost_what_they_held_and_no_more(stage: Stage, part: int) -> None:
    """Some hundred of the cuts of ``make soak``, spread over all files but the index, which is half of them."""
    cuts = [case for case in stage.cuts() if not case.file.startswith("index.sqlite")]
    found = [wrong for case in cuts[part * 97 :: PARTS * 97] for wrong in judge(stage, case)]
    assert found == [], "\n".join(found[:20])


def test_files_include_everything_that_a_store_holds(stage: Stage) -> None:
    names = {file.rpartition("/")[2] for file in stage.files()}
    assert names >= {
        *(
            "run.json",
            "client.jsonl",
            "plan.json",
            "events.jsonl",
            "control.jsonl",
            "log",
            "runner.log",
            "outputs.jsonl",
        ),
        *(
            "store.json",
            "settings.json",
            "milliseconds",
            "seen",
            "index.sqlite",
            "index.sqlite.records",
            "assets.jsonl",
        ),
        *("clock", "model", "git.diff"),
    }
    assert any(name.endswith(".m") for name in names)


def _case(stage: Stage, name: str, at: int = 30) -> Case:
    """A file of the first run that is cut there."""
    file = f"runs/{stage.runs[1]['uid']}/{name}"
    return Case(file, "cut", at, keep_index=False, submits=True, look=LOOKS[0])


def test_oracles_are_content_with_a_damage_that_costs_one_run(stage: Stage) -> None:
    assert judge(stage, _case(stage, "run.json")) == []


@pytest.mark.parametrize("name", ["project_id", "run_number", "run_id"])
def test_bit_flipped_in_the_identity_does_not_hide_the_run(stage: Stage, name: str) -> None:
    """It would be listed as a run of another project, or under another number."""
    whole = (stage.sound / "runs" / stage.runs[1]["uid"] / "run.json").read_bytes()
    value = json.dumps(json.loads(whole)[name])
    start = whole.index(f'"{name}":{value}'.encode()) + len(name) + 3
    for at in range(start, start + len(value)):
        assert judge(stage, _case(stage, "run.json", at)._replace(kind="flip")) == []


def _red(found: list[str]) -> set[str]:
    return {wrong[:2] for wrong in found}


def test_d1_finds_a_command_that_ends_by_a_bug(stage: Stage) -> None:
    """A run's folder that cannot be listed stops the list of all."""

    def break_list(stage: Stage) -> None:
        shutil.rmtree(stage.home / "runs")
        (stage.home / "runs").write_text("not a folder")

    assert "D1" in _red(judge(stage, _case(stage, "run.json"), break_list))


def test_d2_finds_a_second_start(stage: Stage) -> None:
    def start_again(stage: Stage) -> None:
        with stage.witness.open("a") as witness:
            witness.write(f"{stage.runs[1]['uid']}\n")

    assert "D2" in _red(judge(stage, _case(stage, "run.json"), start_again))


def test_d3_finds_a_run_that_is_hidden_or_told_otherwise(stage: Stage) -> None:
    def hide(stage: Stage) -> None:
        shutil.rmtree(stage.home / "runs" / stage.runs[2]["uid"])

    def tell_otherwise(stage: Stage) -> None:
        path = stage.home / "runs" / stage.runs[2]["uid"] / "a1" / "events.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"outcome":"failed"', b'"outcome":"completed"'))

    assert "D3" in _red(judge(stage, _case(stage, "run.json"), hide))
    assert "D3" in _red(judge(stage, _case(stage, "run.json"), tell_otherwise))


def test_d4_finds_a_number_that_is_given_twice(stage: Stage) -> None:
    def renumber(stage: Stage) -> None:
        path = stage.home / "runs" / stage.runs[2]["uid"] / "run.json"
        request = {**json.loads(path.read_text()), "run_number": 3}
        del request["crc"]
        path.write_bytes(sealed(request))

    assert "D4" in _red(judge(stage, _case(stage, "run.json"), renumber))


def test_d5_finds_a_change_that_verify_does_not_see(stage: Stage, tmp_path: Path) -> None:
    """A damage of a log that came with a matching hash: here, of the file as it was before the run was closed."""
    log = stage.sound / "runs" / stage.runs[1]["uid"] / "a1" / "log"
    whole = log.read_bytes()
    log.write_bytes(whole + b"more")
    try:
        # Cut back to what was hashed: verify must call it sound, and the oracle, which knows of the cut, must not.
        assert _red(judge(stage, _case(stage, "a1/log", at=len(whole)))) == {"D5"}
    finally:
        log.write_bytes(whole)


def test_any_bit_flipped_in_the_identity_of_the_store_is_reported_as_damage(stage: Stage) -> None:
    size = (stage.sound / "store.json").stat().st_size
    for at in range(size):
        case = Case("store.json", "flip", at, keep_index=True, submits=False, look=("runs",))
        assert judge(stage, case) == []
