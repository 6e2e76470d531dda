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
GOOD_KEYS = st.sampled_from(["a", "b b", '"c"', "'d'", "e.f", "a:b", "x/y", "$k", "é"])
ODD_KEYS = st.sampled_from(["<<", "=", "-", "?", "#x", "[a]", "a #b", "'it''s'"]) | SIGNS
GOOD_VALUES = st.sampled_from(
    [
        "",
        "x",
        "1.0",
        "a b",
        "a#b",
        "http://a:1/b",
        "-x",
        '"q"',
        "'q q'",
        "[a, 'b']",
        "[]",
        "{}",
        "{a: 1}",
        "x # c",
        "# c",
    ]
)
ODD_VALUES = st.sampled_from(["[", "]", "#", "a: b", "a:", "- x", "'it''s'", '"a\\n"', "x\ty", "|", "*a"]) | SIGNS


def mostly(good: st.SearchStrategy[str], odd: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.integers(0, 30).flatmap(lambda dice: good if dice else odd)


@st.composite
def documents(draw: st.DrawFn) -> list[str]:
    """Lines of a block document, well formed but for a slip here and there."""
    lines: list[str] = []

    def block(indent: int, depth: int) -> None:
        dashed = bool(depth) and draw(st.booleans())
        for _ in range(draw(st.integers(1, 3))):
            if not draw(st.integers(0, 5)):
                lines.append(draw(st.sampled_from(["", "# c", "   # c", "  "])))
            slip = 0 if draw(st.integers(0, 40)) else draw(st.integers(-1, 2))
            start = " " * max(indent + slip, 0) + ("- " if dashed else "")
            if dashed and draw(st.booleans()):
                lines.append(start + draw(mostly(GOOD_VALUES, ODD_VALUES)))
                continue
            key = start + draw(mostly(GOOD_KEYS, ODD_KEYS)) + draw(st.sampled_from([":", ":", ":", " :"]))
            if depth < 3 and draw(st.booleans()):
                lines.append(key)
                block(len(start) + draw(st.integers(0, 3)), depth + 1)
            else:
                lines.append(f"{key} {draw(mostly(GOOD_VALUES, ODD_VALUES))}")

    block(draw(st.sampled_from([0, 0, 0, 2])), 0)
    return lines


@settings(max_examples=800, deadline=None)
@given(documents())
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


@st.composite
def flow_values(draw: st.DrawFn) -> list[str]:
    """Lines of a bracketed value with blanks and line breaks in likely and unlikely places."""

    def gap() -> str:
        return draw(st.sampled_from(["", "", "", " ", " ", "\n", "\n  ", " # c\n"]))

    def value(depth: int) -> str:
        kind = draw(st.sampled_from(["[]", "{}", "scalar"])) if depth else draw(st.sampled_from(["[]", "{}"]))
        if kind == "scalar" or depth > 3:
            return draw(mostly(FLOW_SCALARS, SIGNS))
        items = []
        for _ in range(draw(st.integers(0, 3))):
            key = draw(mostly(FLOW_SCALARS, SIGNS)) + gap() + draw(st.sampled_from([": ", ": ", ":", ":\n"]))
            items.append(gap() + (key if kind == "{}" else "") + gap() + value(depth + 1) + gap())
        return kind[0] + draw(mostly(st.just(","), st.sampled_from(["", ",,", " "]))).join(items) + gap() + kind[1]

    return value(0).split("\n")


FLOW_SCALARS = st.sampled_from(
    ["a", "$file", "1.5", "a b", "--x", "a-b", "a/b", '"q"', '""', "'q q'", "'a, b'", "é", "~"]
)


@settings(max_examples=500, deadline=None)
@given(flow_values())
@example(['{"a"', ": 1}"])
def test_the_flow_reader_agrees_with_the_full_one(lines: list[str]) -> None:
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


@settings(max_examples=500, deadline=2000)
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
    """Everything two readers can differ in. The position of an absent value does not matter."""
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
        match data.draw(st.sampled_from(["flip", "drop", "double", "swap", "insert", "wrap", "cut"])):
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
            case "wrap":
                key, colon, value = lines[at].partition(b": ")
                opening, closing = data.draw(st.sampled_from([(b"[", b"]"), (b"{x: ", b"}"), (b"[[", b"]]")]))
                lines[at] = key + colon + opening + value.rstrip() + closing
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        original = b"\n".join(lines)
    return original


QUICK = [
    "a: b", "a : b", "a:", "a: # c", "a: b # c", "a: b#c", "a: -b", "a: b:c", "a: 'b' # c", 'a: "b"', "a: ''",
    "'a': b", '"a" : b', "'a' :", "a:\n- b\n- c", "a:\n  - b\n  -\n  - c", "a:\n  - b: c\n    d: e\n  - f: g",
    "a:\n  -   b: c\n      d: e", "a:\n  b:\n    c: d\ne: f", "a:\nb:", "# c\na: b\n\n  # d\nc: d", "a: [b, c]",
    "a: [b,\n  c]\nd: e", "a: {b: c, 'd': e}", "a: [] # c", "a: {}", "a: [[b], {c: [d]}]", "a: b c",
    "a:\n  - 'b'\n  - \"c: d\"", "a:\n  - [b]\n  - {c: d}", "a: [b c, d]", "a: [-b, --c]", "a: [b,]",
    "a:\n- b: [c]\n  d: e\nf: g", "a: é", "  a: b\n  c: d", "a:\n  - # c\n  - b", "a: {\"b\":c}", "a: ['b', \"c\"]",
    "a: [b]", "a: b.c", "a:\n    b: c\n    # d\n    e: f",
]  # fmt: skip
UNCERTAIN = [
    "a", "a: b: c", "a: b:", "a: 'b", 'a: "b\\n"', "a: 'it''s'", "a: 'b' c", "a: 'b'# c", "a: [b]# c", "a: [b] c",
    "a: &b", "a: *b", "a: !b", "a: |", "a: >", "a: %b", "a: @b", "a: `b", "a: ?b", "a: - b", "a: - ", "a:\n  b",
    "a: b\n  c: d", "a:\n  b: c\n d: e", "a:\n - b\n  - c", "a:\n  - - b", "a:b", "---\na: b", "...", "a: b\x07",
    "# \x07", "a: [", "a: [b", "a: [b, , c]", "a: {b: }", "a: [,]", "a: {b}", "a: {b c}", "a: {b:c}", "a: [b:c]",
    "a: [b: c]", "a: [b #c]", "a: [&b]", "a: [- b]", "a: [b c: d]", "a: {b: c d: e}", "a: {b: [c}", "a: ['b' c]",
    "a: ['it''s']", 'a: ["b\\n"]', "a: {'b'\n: c}", "a: [b\tc]", "? a", "x" * 1025 + ": b", "'" + "x" * 1025 + "': b",
    "[a]: b", "a:\n  - b\n  c: d", "a:\n- b\nc", "a: " + "[" * 17 + "]" * 17,
    "".join(f"{' ' * n}a:\n" for n in range(17)),
]  # fmt: skip


@pytest.mark.parametrize("text", QUICK)
def test_the_quick_reader_reads_ordinary_files(text: str) -> None:
    lines = text.split("\n")
    full = read_full(lines)
    assert full is not None
    assert described(read_plain(list(lines))) == described(full)


@pytest.mark.parametrize("text", UNCERTAIN, ids=lambda text: text[:20])
def test_the_quick_reader_leaves_doubtful_files_to_the_full_one(text: str) -> None:
    with pytest.raises(UncertainError):
        read_plain(text.split("\n"))


def test_both_quick_readers_accept_fifteen_levels() -> None:
    for text in ("a: " + "[" * 15 + "]" * 15, "".join(f"{' ' * n}a:\n" for n in range(15))):
        lines = text.split("\n")
        full = read_full(lines)
        assert full is not None
        assert described(read_plain(lines)) == described(full)


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ('{"a": "b"\n"c": 1}', {"a": "b", "c": "1"}, [(0, 9)]),
        ('{"a": true.\n"c": 10}', {"a": "true", "c": "10"}, [(0, 10)]),
        ('{"a": 5.\n"c": 10}', {"a": "5", "c": "10"}, [(0, 7)]),
        ('{"a": "b".\n"c": 10}', {"a": "b", "c": "10"}, [(0, 9)]),
        ('{"a": [- b\n- c]}', {"a": ["b", "c"]}, [(0, 7)]),
        ('{"a": [- b - c]}', {"a": ["b", "c"]}, [(0, 7)]),
        ('{"a": "\\u00e9\\n"}', {"a": "é\n"}, []),
        ('{"a"\n: 1}', {"a": "1"}, []),
        ("{'a': 'b\\'}", {"a": "b\\"}, []),
    ],
)
def test_slips_in_json_are_read_and_noted(text: str, value: object, places: list[tuple[int, int]]) -> None:
    slips: list[tuple[int, int, str, str]] = []
    flow = Flow(text.split("\n"), 0, 0, slips)
    assert raw(flow.value()) == value
    assert [slip[:2] for slip in slips] == places


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b" "c": 1}',
        '{"a": b\nc: 1}',
        '{"a": "\\q"}',
        '["a" "b"]',
    ],
)
def test_other_slips_in_json_are_left_to_the_full_reader(text: str) -> None:
    with pytest.raises(UncertainError):
        Flow(text.split("\n"), 0, 0, []).value()


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('a: b\nc: "d\\q"', 1, 6, "a single backslash inside double quotes"),
        ("a: b\nc:d\ne: f", 1, 2, "no space after the colon"),
        ("a: b\n\tc: d", 1, 0, "a tab is used as indentation"),
        ("a: b\nc: 'd", 1, 3, "this quote is never closed"),
        ("a: b\nc: [d", 1, 3, "this bracket is never closed"),
        ("a: b\nword\nc: d", 1, 0, "this line is not 'key: value'"),
        ("a: b\nc: d: e", 1, 4, "a second ':' or a wrong indentation"),
        ("a: b\nc: @d", 1, 3, "a value cannot begin with '@'"),
        ("a: b\nc: ]", 1, 3, "this is not YAML"),
        ("a: b\nc: d\x07", 1, 4, "the character #0007 is not allowed in a text file"),
        ('a: b\nc: "\\U00110000"', 0, 0, "this is not YAML: invalid escape in double quotes"),
        ('a: b\nc: "\\UFFFFFFFF"', 0, 0, "this is not YAML: invalid escape in double quotes"),
    ],
)
def test_refusals_name_the_place_and_the_cause(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(RefusedError) as caught:
        read_full(text.split("\n"))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.message.startswith(message)


def test_quick_reader_leaves_a_quoted_key_without_a_space_to_the_full_one() -> None:
    assert read_plain(['"a": 1']).entries
    with pytest.raises(UncertainError):
        read_plain(['"a":b'])


def test_key_of_a_flow_map_needs_a_space_behind_its_colon() -> None:
    assert raw(Flow(["{a: b}"], 0, 0).value()) == {"a": "b"}
    with pytest.raises(UncertainError):
        Flow(["{a:b}"], 0, 0).value()


def test_quick_reader_reads_a_quoted_key_in_a_list() -> None:
    lines = ["k:", '- "a" : 1', '- "b: c"']
    full = read_full(lines)
    assert full is not None
    assert described(read_plain(list(lines))) == described(full)
