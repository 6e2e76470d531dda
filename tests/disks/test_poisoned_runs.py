"""One run whose files make no sense costs one line: every command goes on with the others."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from conftest import Desk, Result
from forkserver import Forkserver
from holdfast.runner import untrusted
from holdfast.runner.store import jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOOKS = (
    ("runs",),
    ("history", "list", "-o", "json"),
    ("history", "list", "--all", "--where", "status = 'Completed'"),
    ("info", "-r", "2"),
    ("store", "reindex"),
    ("runs",),
    ("history", "list", "--all", "-o", "json"),
    ("du",),
    ("store", "prune"),
)


def _event(**fields: Any) -> Callable[[Path], None]:
    """A change to every event of the run, with a correct checksum."""

    def change(run: Path) -> None:
        path = run / "a1" / "events.jsonl"
        events = [json.loads(line) for line in path.read_bytes().splitlines()]
        path.write_bytes(b"".join(_sealed({**event, **fields}) for event in events))

    return change


def _request(**fields: Any) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        path = run / "run.json"
        path.write_bytes(_sealed({**json.loads(path.read_bytes()), **fields}))

    return change


def _sealed(value: dict[str, Any]) -> bytes:
    value.pop("crc", None)
    return jsonl.sealed(value)


def _nested(run: Path) -> None:
    (run / "run.json").write_bytes(b"[" * 100_000)


def _many_digits(run: Path) -> None:
    (run / "run.json").write_bytes(b'{"run_number": ' + b"9" * 100_000 + b"}")


def _twin(run: Path) -> None:
    shutil.copytree(run, run.with_name("f" * 32), symlinks=True)


def _twin_with_its_own_uid(run: Path) -> None:
    _twin(run)
    _request(uid="f" * 32)(run.with_name("f" * 32))


def _fifo(run: Path) -> None:
    (run / "a1" / "events.jsonl").unlink()
    os.mkfifo(run / "a1" / "events.jsonl")


POISONS: dict[str, Callable[[Path], None]] = {
    "event type": _event(type=[]),
    "time": _event(wall_ns=10**30, mono_ns=-(10**30)),
    "time of text": _event(wall_ns="soon", seq={}),
    "surrogate": _event(host="\ud800", reason="\udfff\ud800"),
    "not a number": _event(mono_ns=float("nan"), exit_code=float("inf")),
    "odd closing": _event(outcome=["completed"], exit_code={"a": 1}, files=[1], reason={"b": []}),
    "odd request": _request(arguments={"a": 1}, script=7, target=[], git=[], user={}, created_ns=10**40, retries="x"),
    "number of the run": _request(run_number=10**30),
    "identity": _request(run_id=["x"], project_id=None),
    "path as project": _request(project_id="../../x"),
    "lone surrogate": _request(script="\ud800.py", arguments=["\udfff"], project="\ud900"),
    "nested": _nested,
    "many digits": _many_digits,
    "cut": lambda run: os.truncate(run / "run.json", 40),
    "empty": lambda run: os.truncate(run / "run.json", 0),
    "copy": _twin,
    "twin": _twin_with_its_own_uid,
    "named pipe": _fifo,
}


class QuickDesk(Desk):
    """A desk whose commands cost a few milliseconds."""

    server: Forkserver

    def holdfast(self, *words: str, **_: Any) -> Result:
        return Result(*self.server.run(*words))


@pytest.fixture(name="furnished", scope="module")
def furnished_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickDesk]:
    desk = QuickDesk(tmp_path_factory.mktemp("poison"))
    desk.script("import holdfast\nholdfast.log('loss', 0.5)\n")
    with Forkserver(desk.env, desk.project) as desk.server:
        for _ in range(3):
            assert desk.submit("train.py").code == 0
        shutil.copytree(desk.home, desk.home.with_name("sound"), symlinks=True)
        yield desk


@pytest.fixture(name="three")
def three_fixture(furnished: QuickDesk) -> QuickDesk:
    """A store with three runs, as sound as it was at first."""
    shutil.rmtree(furnished.home)
    shutil.copytree(furnished.home.with_name("sound"), furnished.home, symlinks=True)
    return furnished


@pytest.mark.parametrize("name", list(POISONS))
def test_poisoned_run_costs_one_line(three: Desk, name: str) -> None:
    poisoned = three.home / "runs" / str(three.record("1")["uid"])
    POISONS[name](poisoned)
    three.holdfast("store", "reindex")
    for words in LOOKS:
        result = three.holdfast(*words)
        assert result.code == 0, (words, result)
        assert "Traceback" not in result.err
        assert result.err.count("\n") <= 3, (words, result.err)
    shown = [row["run_number"] for row in three.holdfast("history", "list", "-o", "json").json]
    assert {2, 3} <= set(shown)
    shown_of_poisoned = three.holdfast("info", "-r", poisoned.name, "-o", "json")
    assert shown_of_poisoned.code == 0, shown_of_poisoned
    assert three.holdfast("info", "-r", poisoned.name, "-o", "table").code == 0
    assert three.holdfast("store", "verify").code == 74
    assert three.submit("train.py").code == 0
    assert three.record("last")["run_number"] == 4


def test_cut_run_file_is_shown_in_its_project_as_damaged(three: Desk) -> None:
    path = three.home / "runs" / str(three.record("2")["uid"]) / "run.json"
    os.truncate(path, 100)
    three.holdfast("store", "reindex")
    listed = three.holdfast("history", "list", "-o", "json")
    assert [(row["run_number"], row["status"]) for row in listed.json] == [
        (3, "Completed"),
        (2, "Damaged"),
        (1, "Completed"),
    ]
    assert listed.err.count("WARNING") == 1
    assert str(path) in listed.err
    assert str(path) in three.holdfast("store", "verify", "-o", "json").text


@pytest.mark.parametrize("counter", [b"", b"1", b"1\n", b"\0\0\n", b"9" * 50, b"x\n", None])
@pytest.mark.parametrize("note", ["kept", "gone", "older"])
def test_number_is_never_given_twice(three: Desk, counter: bytes | None, note: str) -> None:
    project = str(three.record("1")["experiment_id"])
    numbers = three.home / "numbers"
    if counter is None:
        (numbers / project).unlink()
    else:
        (numbers / project).write_bytes(counter)
    if note == "gone":
        (numbers / "seen").unlink()
    elif note == "older":
        older = json.loads((numbers / "seen").read_bytes())
        (numbers / "seen").write_bytes(_sealed({**older, "runs": 1, "of": {project: 1}, "milliseconds": 1}))
        (numbers / "milliseconds").write_text("1\n")
    assert three.submit("train.py").code == 0
    rows = three.holdfast("history", "list", "-o", "json").json
    assert [row["run_number"] for row in rows] == [4, 3, 2, 1]
    assert len({row["run_id"] for row in rows}) == 4


VALUES = """
import decimal, fractions, holdfast
for value in (10**400, -10**400, 10**5000, [10**400], {'a': 10**400}, decimal.Decimal('1e999'), decimal.Decimal('0.5'),
              fractions.Fraction(1, 3), float('nan'), 'x' * 100000, '\\ud800', b'\\xff', object(), 2**63, None, 1j):
    holdfast.log('value', value)
holdfast.log('big', 10**400)
holdfast.log('\\ud800 name', 1)
holdfast.log('n' * 10000, 1, step=10**400)
"""


def test_values_beyond_any_float_are_kept_as_text(desk: Desk) -> None:
    desk.script(VALUES)
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert "Traceback" not in result.err
    assert desk.record()["big"] == str(10**400)
    for words in ("runs", "info", "info -o table", "history list --columns run_number,value"):
        assert desk.holdfast(*words.split()).code == 0, words
    for words in ("plot value", "compare 1 1", "history list --sort value"):
        assert desk.holdfast(*words.split()).code != 70, words


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": 1e999}', {"a": None}),
        (b'{"a": NaN}', {"a": None}),
        (b'{"a": 10000000000000000000000}', {"a": 1e22}),
        (b'{"\\ud800": "\\udc80"}', {"\ufffd": "\udc80"}),
        (b'{"a": 1794824400000000000}', {"a": 1794824400000000000}),
    ],
)
def test_loads_gives_values_that_every_reader_can_use(line: bytes, value: object) -> None:
    assert untrusted.loads(line) == value


@pytest.mark.parametrize("line", [b"[" * 101 + b"]" * 101, b"[" * 10**6, b"9" * 5000, b"{", b"\xff"])
def test_loads_refuses_what_would_harm_a_reader(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        untrusted.loads(line)
