"""Words that docs, docstrings, comments and local names do not use. Allowed counts can only shrink.

CONTRIBUTING.md has the rules for language. Texts of messages are checked in test_message_language.py.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PERSONS = ("nobody", "somebody", "whoever", "anybody", "everybody")
BUILDING = ("house", "room", "rooms", "floor", "storey")
INVENTED = (
    *("luggage", "parcel", "parcels", "undertaker", "rites", "strays", "stranger", "strangers", "tidying"),
    *("look after", "looks after", "looked after", "looking after", "let in", "lets us in", "let us in", "gone again"),
)
BANNED = re.compile(rf"\b({'|'.join((*PERSONS, *BUILDING, *INVENTED))})\b", re.IGNORECASE)
# Where a word has its ordinary meaning.
ORDINARY = re.compile(r"bench/floor\.py|floor division|math\.floor|`[^`]*`|user nobody", re.IGNORECASE)
FOLDERS = ("src", "docs", "tests", "tools", "bench", "packages", ".")
# Generated from texts of messages, or a list of what was written at the time.
OTHERS = {"docs/commands.md", "docs/errors.md", "docs/trust.md", "CHANGELOG.md"}

# Old texts that are still to be rewritten. Lower a number when you have removed such words; never raise one.
ALLOWED = {"src": 0, "docs": 0, "tests": 0, "tools": 0, "bench": 0, "packages": 0, ".": 0}

# Local names that do not say what they hold.
VAGUE = ("found", "said", "told", "asked", "place", "wish", "way", "words", "one")


@pytest.mark.parametrize("folder", FOLDERS)
def test_docs_docstrings_and_comments_avoid_banned_words(folder: str) -> None:
    found: Counter[str] = Counter()
    lines = []
    for path, line, text in _texts(folder):
        for word in BANNED.findall(ORDINARY.sub("", text)):
            found[word.lower()] += 1
            lines.append(f"{path}:{line}: {word}")
    assert sum(found.values()) <= ALLOWED.get(folder, 0), "\n".join(lines)


def test_the_check_finds_a_banned_word_in_each_kind_of_text() -> None:
    source = '"""For whoever reads."""\n\ndef f():\n    """Nobody."""\n    return "somebody"  # no room\n'
    words = [word.lower() for _, text in _prose(source) for word in BANNED.findall(text)]
    assert sorted(words) == ["nobody", "room", "whoever"]


def test_local_names_say_what_they_hold() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "src" / "holdfast").rglob("*.py"))
        for line, name in _local_names(path.read_text(encoding="utf-8"))
        if name in VAGUE
    ]
    assert lines == []


def test_parameters_variables_and_targets_of_loops_are_local_names() -> None:
    source = (
        "place = 1\nclass A:\n    words: str\n    asked = [one for one in place]\n"
        "    def way(self, found, *told):\n        said = wish = 1\n        self.place = said\n"
        "def f():\n    import words\n    for place in words: lambda way: way\n    words.found(asked=1)\n"
    )
    assert Counter(name for _, name in _local_names(source)) == Counter(
        ["one", "self", "found", "told", "said", "wish", "place", "way"]
    )


def _local_names(source: str) -> Iterator[tuple[int, str]]:
    """Each place that binds a parameter or a variable of a function, a lambda or a comprehension, with its line."""
    nodes: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while nodes:
        node, is_local = nodes.pop()
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name and is_local:
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and is_local:
            yield node.lineno, node.id
        if isinstance(node, ast.ClassDef):
            is_local = False
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.comprehension)):
            is_local = True
        nodes += [(child, is_local) for child in ast.iter_child_nodes(node)]


def _texts(folder: str) -> Iterator[tuple[str, int, str]]:
    top = ROOT / folder
    pattern = "*" if folder == "." else "**/*"
    for path in sorted(top.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".md" and name not in OTHERS and "corpus" not in path.parts:
            for number, line in enumerate(prose_of_page(path.read_text(encoding="utf-8")).splitlines(), 1):
                yield name, number, line
        elif path.suffix == ".py" and path != Path(__file__) and "corpus" not in path.parts:
            for number, text in _prose(path.read_text(encoding="utf-8")):
                yield name, number, text


def prose_of_page(text: str) -> str:
    """A page without its blocks of code, which show what programs print, and without words in an ordinary meaning."""
    blocks = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    return ORDINARY.sub("", blocks.sub(lambda block: "\n" * block[0].count("\n"), text))


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a Python file, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
