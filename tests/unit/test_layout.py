"""Paths of the store."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.runner.run import outputs
from holdfast.runner.store import layout
from holdfast.store.home import Home

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"


def test_a_path_is_of_the_type_of_its_folder() -> None:
    assert layout.events("/store/runs/u/a1") == "/store/runs/u/a1/events.jsonl"
    assert layout.events(b"/store/runs/u/a1") == b"/store/runs/u/a1/events.jsonl"
    assert layout.packages(b"/store") == b"/store/cache/packages"


def test_client_and_runner_agree_on_where_things_are() -> None:
    home = Home("/store", "")
    attempt = layout.attempt(home.run("u"), 1)
    assert attempt == home.run("u", "a1") == "/store/runs/u/a1"
    assert layout.stat_cache(b"/store", b"p") == home.stat_cache("p").encode()
    assert layout.build_lock(b"/store", b"k") == home.lock_file("env-k").encode()
    assert layout.use_lock(b"/store", b"k") == home.lock_file("use-k").encode()
    assert layout.environment("/store", "k") == home.environment("k")


def test_every_place_is_documented() -> None:
    page = FORMATS.read_text(encoding="utf-8")
    places = [place.name for place in vars(layout).values() if isinstance(place, layout.Place)]
    programs = {
        layout.builder_program.name,
        layout.container_init.name,
        layout.gpu_probe.name,
        layout.package_list.name,
    }
    assert [name for name in places if name.rpartition("/")[2] not in page and name not in programs] == []


def test_work_folder_of_an_earlier_version_is_found_and_its_outputs_count(tmp_path: Path) -> None:
    attempt = os.fsencode(tmp_path / "a1")
    os.makedirs(os.path.join(attempt, b"work", b"outputs"))
    with open(os.path.join(attempt, b"work", b"outputs", b"model"), "w") as target:
        target.write("only copy")
    assert layout.worked_in(attempt) == layout.removed_with_work(attempt) == os.path.join(attempt, b"work")
    assert outputs.unlisted(attempt) == (1, 9)


def test_work_folder_of_a_run_is_removed_with_what_was_written_above_it(tmp_path: Path) -> None:
    attempt = str(tmp_path / "a1")
    os.makedirs(layout.work(attempt))
    assert layout.worked_in(attempt) == layout.work(attempt)
    assert layout.removed_with_work(attempt) == layout.workspace(attempt)
