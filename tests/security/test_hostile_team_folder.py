"""A target that lies about a shared folder: nothing it names becomes a path, and nothing it sends is without end."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.engine.transfer.target_folder import TargetFolder, split
from holdfast.errors import HoldfastError, MalformedAnswerError
from holdfast.runner import wire
from holdfast.store.home import Home
from holdfast.store.shared import shared_folder
from security.hostile import channel, end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.model import Json

STORE, UID, DIGEST = "a" * 32, "b" * 32, "c" * 64
HONEST = {"id": STORE, "owner": "ada", "own": False}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "store").mkdir()
    return Home(str(tmp_path / "store"), "1" * 32)


def answering(frames: Callable[[Json], Iterator[bytes]], stores: object = (HONEST,)) -> Any:
    def answers(request: Json) -> Iterator[bytes]:
        if request["act"] == "open":
            yield end(request, state="history", path="/x", stores=list(stores) if isinstance(stores, tuple) else stores)
        else:
            yield from frames(request)

    return channel(answers)


def everything(home: Home) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(os.path.dirname(home.path)) for name in names}


@pytest.mark.parametrize(
    "stores",
    [
        ({**HONEST, "id": "../../../escaped"},),
        ({**HONEST, "id": STORE.upper()},),
        ({**HONEST, "id": 5},),
        ({**HONEST, "owner": ["ada"]},),
        ("a",),
        "stores",
        (HONEST,) * 10_001,
    ],
    ids=["climbs", "upper case", "number", "owner", "text", "no list", "many"],
)
def test_stores_that_are_none_are_refused(home: Home, stores: object) -> None:
    with pytest.raises(MalformedAnswerError):
        TargetFolder(home, answering(end_of, stores), "evil", "team")
    assert everything(home) == set()


def end_of(request: Json) -> Iterator[bytes]:
    yield end(request)


def test_owner_that_acts_on_a_terminal_is_none(home: Home) -> None:
    stores = ({**HONEST, "owner": "\x1b[2Jada"}, HONEST)
    assert [author.owner_name for author in TargetFolder(home, answering(end_of, stores), "evil", "x").authors()] == [
        "ada"
    ]


@pytest.mark.parametrize(
    "names", [["../x"], ["B" * 32], [5], "text", [], [UID] * 2_000_001], ids=lambda value: str(value)[:9]
)
def test_names_that_are_none_are_refused(home: Home, names: object) -> None:
    def frames(request: Json) -> Iterator[bytes]:
        for _ in itertools.count():  # without end
            for start in range(0, len(names) or 1, 100_000) if isinstance(names, list) else (0,):
                part = names[start : start + 100_000] if isinstance(names, list) else names
                yield wire.pack({"re": request["id"], "names": part})

    with TargetFolder(home, answering(frames), "evil", "team") as folder, pytest.raises(MalformedAnswerError):
        folder.names(folder.authors()[0], shared_folder.RUNS)


@pytest.mark.parametrize(
    "row", [["../x", 1, ""], [DIGEST, -1, ""], [DIGEST, 1, 5], [DIGEST, 1], "text", [[], {}, 1]], ids=str
)
def test_objects_that_are_none_are_refused(home: Home, row: object) -> None:
    def frames(request: Json) -> Iterator[bytes]:
        yield wire.pack({"re": request["id"], "objects": [row]})
        yield end(request)

    with TargetFolder(home, answering(frames), "evil", "team") as folder, pytest.raises(MalformedAnswerError):
        list(folder.objects(folder.authors()[0]))


def piece(request: Json, data: bytes, **fields: object) -> bytes:
    return wire.pack({"re": request["id"], "file": 0, "at": 0, **fields}, data)


PIECES: dict[str, Callable[[Json], Iterator[bytes]]] = {
    "a file that was not requested": lambda request: iter([piece(request, b"x", file=1)]),
    "a negative number": lambda request: iter([piece(request, b"x", file=-1)]),
    "a path": lambda request: iter([piece(request, b"x", file="../../x")]),
    "another place": lambda request: iter([piece(request, b"x", at=5)]),
    "one more byte than the limit and one": lambda request: iter([piece(request, b"x" * 12)]),
    "pieces without end": lambda request: (piece(request, b"x", at=at) for at in itertools.count()),
    "empty pieces without end": lambda request: (piece(request, b"") for _ in itertools.count()),
    "the same file again": lambda request: iter(
        [piece(request, b"x"), piece(request, b"", at=1), piece(request, b"x")]
    ),
    "problems without end": lambda request: (piece(request, b"", problem="x") for _ in itertools.count()),
    "a problem that is a list": lambda request: iter([piece(request, b"", problem=["x"])]),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_that_were_not_requested_are_refused(home: Home, name: str) -> None:
    with TargetFolder(home, answering(PIECES[name]), "evil", "team") as folder:
        (author,) = folder.authors()
        with pytest.raises(MalformedAnswerError):
            folder.bring(author, shared_folder.OBJECTS, {DIGEST: 10})
        assert all(path.startswith(os.path.dirname(author.path)) for path in everything(home))
    assert everything(home) == set()


def test_folders_of_code_that_are_larger_together_than_is_read_are_refused(home: Home) -> None:
    def frames(request: Json) -> Iterator[bytes]:
        files: Any = request["files"]
        for number in range(len(files)):
            yield piece(request, b"x" * 10, file=number)
            yield piece(request, b"", file=number, at=10)
        yield end(request)

    limits = {f"{number:064x}": 10 for number in range(5)}
    too_many = pytest.raises(ValueError, match="more folders than are read")
    with TargetFolder(home, answering(frames), "evil", "team") as folder, too_many:
        folder.bring(folder.authors()[0], shared_folder.OBJECTS, limits, 30)


def test_target_that_lacks_what_was_never_offered_gets_what_was(home: Home) -> None:
    def answers(request: Json) -> Iterator[bytes]:
        if request["verb"] == "lacks":
            yield end(request, missing=["d" * 64, "../../x"], partial={"../x": 5}, free=10**12, refused="")
        elif request["verb"] == "history":
            yield end(
                request, state={"begin": "open", "publish": "done"}.get(str(request["act"]), "history"), stores=[]
            )

    content = shared_folder.Content(DIGEST, 4, "", b"line")
    with TargetFolder(home, channel(answers), "evil", "team") as folder, folder.writer(home.id) as writer:
        assert writer.send([content], int) == {}
        writer.publish({UID: content}, [])


def test_target_that_takes_nothing_is_an_error_and_no_run_is_published(home: Home) -> None:
    asked: list[str] = []

    def answers(request: Json) -> Iterator[bytes]:
        asked.append(str(request.get("act") or request["verb"]))
        if request["verb"] == "lacks":
            yield end(request, missing=request["digests"], partial={}, free=10**12, refused="\x1b[2Jno")
        elif request["verb"] == "history":
            yield end(request, state="open" if request["act"] == "begin" else "history", stores=[])

    content = shared_folder.Content(DIGEST, 4, "", b"line")
    refused = pytest.raises(HoldfastError, match="the shared folder cannot be written")
    with TargetFolder(home, channel(answers), "evil", "team") as folder, folder.writer(home.id) as writer, refused:
        writer.publish({UID: content}, [])
    assert "publish" not in asked


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("gpu1:team/history", ("gpu1", "team/history")),
        ("gpu1:/srv/a:b", ("gpu1", "/srv/a:b")),
        ("gpu1:", ("gpu1", "~")),
        ("./gpu1:team", None),
        ("/srv/gpu1:team", None),
        ("C:\\Users\\ada", None),
        ("team", None),
    ],
)
def test_target_and_path_are_told_apart_as_by_scp(named: str, expected: tuple[str, str] | None) -> None:
    assert split(named) == expected
