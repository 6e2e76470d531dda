"""Unit tests notice mistakes: of 200 seeded mutants of the pure modules, at least nine in ten make a test fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import seeds
from soak import mutants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soak.mutants import Mutant

SERVER = Path(__file__).with_name("mutant_server.py")
SIZE, FOUND_AT_LEAST = 200, 0.9
PASSED, NO_TESTS = 0, 5  # exit codes of pytest


@pytest.mark.timeout(3600)
def test_unit_tests_find_nine_in_ten_mutants(tmp_path: Path) -> None:
    recording = _record(tmp_path / "recording.json")
    equivalent = mutants.equivalents()
    drawn = [mutant for mutant in mutants.sample(seeds.seed(), SIZE) if mutant.change() not in equivalent]
    with _Servers(os.cpu_count() or 1) as servers:
        for mutant in drawn[:5]:
            assert not servers.finds(mutant, recording, source=mutant.original()), mutant
        found = servers.map(drawn, recording)
    survivors = [mutant for mutant, is_found in zip(drawn, found, strict=True) if not is_found]
    share = 1 - len(survivors) / len(drawn)
    changes = "\n\n".join(mutant.change() for mutant in survivors)
    print(f"{len(drawn)} mutants of {SIZE} are not equivalent; {share:.1%} of them were found. Not found:\n\n{changes}")
    assert share >= FOUND_AT_LEAST, changes


def test_listed_equivalent_mutants_exist_and_have_reasons() -> None:
    listed = mutants.equivalents()
    existing = {
        mutant.change()
        for module in {change.partition(" ")[0] for change in listed}
        for mutant in mutants.mutants(module)
        if any(mutant.line_text() in change for change in listed)
    }
    assert not set(listed) - existing
    assert all(len(reason.split()) > 3 for reason in listed.values())


def test_mutant_that_its_operator_cannot_make_is_passed_over() -> None:
    """One of seed 5001 is an ``except`` with a dotted name in a tuple."""
    assert len(mutants.sample(5001, SIZE)) == SIZE


class Recording(NamedTuple):
    """Which test executes which line, and for how long each runs."""

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that can notice a mutant, the quickest first."""
        by_line = self.lines.get(mutant.module, {})
        statement = mutants.statement_lines(mutant.module, mutant.line)
        lines = by_line if statement is None else map(str, statement)
        tests = {test for line in lines for test in by_line.get(line, ())}
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def _record(path: Path) -> Recording:
    subprocess.run([sys.executable, SERVER, "record", path], check=True, env=_environment())
    return Recording(**json.loads(path.read_text()))


def _environment() -> dict[str, str]:
    """Without a seed: the tests run as they do in ``make test``."""
    return {name: value for name, value in os.environ.items() if name != seeds.VARIABLE}


class _Servers:
    def __init__(self, count: int) -> None:
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._all = [
            subprocess.Popen(
                [sys.executable, SERVER, "serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=_environment(),
            )
            for _ in range(count)
        ]
        for server in self._all:
            self._idle.put(server)

    def __enter__(self) -> _Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._all:
            server.communicate()

    def map(self, drawn: Sequence[Mutant], recording: Recording) -> list[bool]:
        with ThreadPoolExecutor(len(self._all)) as pool:
            return list(pool.map(lambda mutant: self.finds(mutant, recording), drawn))

    def finds(self, mutant: Mutant, recording: Recording, source: str = "") -> bool:
        """Whether a test fails, or does not end."""
        tests = recording.tests(mutant)
        if not tests:
            return False
        limit = 60 + 10 * sum(recording.seconds[test] for test in tests)
        answer = self._ask(
            module=f"holdfast.{mutant.module[:-3].replace('/', '.')}",
            source=source or mutant.source(),
            tests=tests,
            limit=limit,
        )
        assert answer["code"] != NO_TESTS, answer["output"]
        return bool(answer["code"] != PASSED)

    def _ask(self, **request: object) -> dict[str, Any]:
        server = self._idle.get()
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            answer: dict[str, Any] = json.loads(server.stdout.readline())
            return answer
        finally:
            self._idle.put(server)
