"""The quick readers and the full one agree on everything the quick ones accept; nothing makes any of them crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.amlconfig import read_compute, read_runconfig
from holdfast.amlconfig.dependencies import read_conda, read_spark
from holdfast.amlconfig.flow import Flow
from holdfast.amlconfig.form import raw
from holdfast.amlconfig.full import RefusedError, read_full
from holdfast.amlconfig.nodes import Mapping, Scalar, Sequence, UncertainError
from holdfast.amlconfig.plain import read_plain

if TYPE_CHECKING:
    from holdfast.amlconfig.nodes import Node

CORPUS = Path(__file__).parents[1] / "corpus"
FILES = [path for path in sorted(CORPUS.rglob("*")) if path.is_file() and path.parent.name == "aml_config"]
READERS = {".compute": read_compute, ".runconfig": read_runconfig}

SIGNS = st.text(alphabet=list("ab1 .:-#'\"[]{},&*!|>%@`?~\\/$=\té\u00a0\U0001f600"), max_size=8)
KEYS = st.sampled_from(["a", "b b", '"c"', "'d'", "e.f", "<<", "=", "-", "?", "a:b", "#x", "[a]"]) | SIGNS
VALUES = (
    st.sampled_from(["", "x", "1.0", '"q"', "'q'", "[a, b]", "[]", "{}", "{a: 1}", "[", "]", "x # c", "#", "a: b"])
    | SIGNS
)
INDENTS = st.sampled_from(["", "", "  ", "    ", " ", "- ", "  - ", "-   ", "- - "])
ENTRIES = st.builds(lambda indent, key, colon, value: indent + key + colon + value, INDENTS, KEYS,
                    st.sampled_from([": ", ": ", ":", " : ", ""]), VALUES)  # fmt: skip
LINES = st.lists(ENTRIES | st.sampled_from(["", "# c", "  # c", "---", "...", "a:", "- x"]), min_size=1, max_size=7)


@settings(max_examples=3000, deadline=None)
@given(LINES)
@example(["a: b", "  c"])
@example(["a:", "- b", "- c: d", "  e: f", "g:"])
@example(["a: [b,", "c]", "d: e"])
@example(["a: {b: [c, {d: 'e'}]} # f"])
def test_the_quick_reader_agrees_with_the_full_one(lines: list[str]) -> None:
    try:
        quick = read_plain(list(lines))
    except UncertainError:
        return
    full = read_full(lines)
    assert (described(full) if full else []) == (described(quick) if quick.entries else [])


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet=list("ab1 .:-#'\"[]{},\n$"), max_size=30).map(lambda text: "[" + text), st.booleans())
def test_the_flow_reader_agrees_with_the_full_one(text: str, braces: bool) -> None:
    lines = (text.replace("[", "{") if braces else text).split("\n")
    flow = Flow(lines, 0, 0)
    try:
        quick = flow.value()
    except UncertainError:
        return
    rest = [lines[flow.line][flow.column :], *lines[flow.line + 1 :]]
    if not any(line.strip() for line in rest):
        full = read_full(lines)
        assert full is not None
        assert described(full) == described(quick)


JSON = st.recursive(
    st.text(max_size=6) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), st.sampled_from([None, 2, "\t"]), st.booleans())
def test_json_is_read_as_json(data: dict[str, object], indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    slips: list[tuple[int, int, str, str]] = []
    try:
        node = Flow(text.split("\n"), 0, 0, slips).value()
    except UncertainError:
        return
    assert slips == []
    assert raw(node) == as_text(data)


@settings(max_examples=600, deadline=2000)
@given(st.sampled_from(FILES), st.data())
def test_a_damaged_file_gives_a_value_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, path: Path, data: st.DataObject
) -> None:
    damaged = tmp_path_factory.getbasetemp() / f"damaged{path.suffix}"
    damaged.write_bytes(mutated(path.read_bytes(), data))
    readers = [READERS[path.suffix]] if path.suffix in READERS else [read_conda, read_spark]
    for reader in readers:
        value, findings = reader(damaged)
        errors = [finding for finding in findings if finding.severity == "error"]
        assert (value is None) == bool(errors)
        assert all(finding.line >= 0 and finding.column >= 0 and finding.message for finding in findings)


@pytest.mark.parametrize("text", ["a: *b", "a: &b c", "a: !c d", "a: 1\n---\nb: 2", "? [a]\n: b", 'a: "\\U00110000"'])
def test_the_full_reader_refuses(text: str) -> None:
    with pytest.raises(RefusedError):
        read_full(text.split("\n"))


def described(node: Node) -> list[object]:
    """Everything two readers can differ in. Where an absent value stands is nobody's business."""
    if isinstance(node, Scalar):
        place = (node.line, node.column, node.end_line, node.end_column) if node.text or node.quoted else ()
        return [node.text, node.quoted, place]
    place = (node.line, node.column, *((node.end_line, node.end_column) if node.flow else ()))
    if isinstance(node, Sequence):
        return ["sequence", node.flow, place, *(described(item) for item in node.items)]
    assert isinstance(node, Mapping)
    return ["mapping", node.flow, place, *((described(key), described(value)) for key, value in node.entries)]


def as_text(value: object) -> object:
    if isinstance(value, dict):
        return {key: as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_text(inner) for inner in value]
    return value if value is None or isinstance(value, str) else json.dumps(value)


def mutated(original: bytes, data: st.DataObject) -> bytes:
    for _ in range(data.draw(st.integers(1, 3))):
        lines = original.split(b"\n")
        at = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["flip", "drop", "double", "swap", "insert", "cut"])):
            case "flip" if lines[at]:
                column = data.draw(st.integers(0, len(lines[at]) - 1))
                flipped = bytes([lines[at][column] ^ (1 << data.draw(st.integers(0, 7)))])
                lines[at] = lines[at][:column] + flipped + lines[at][column + 1 :]
            case "drop":
                del lines[at]
            case "double":
                lines.insert(other, lines[at])
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "insert":
                column = data.draw(st.integers(0, len(lines[at])))
                junk = data.draw(
                    st.sampled_from([b"\t", b"- ", b": ", b"[", b"{", b'"', b"&a ", b"|", b"\0", b"#"])
                    | st.binary(max_size=4)
                )
                lines[at] = lines[at][:column] + junk + lines[at][column:]
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        original = b"\n".join(lines)
    return original
