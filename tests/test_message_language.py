"""Words that help texts and messages do not use. Allowed counts can only shrink.

Checked are the string literals in ``src`` that hold a sentence or a phrase; docstrings and comments are checked in
``test_language.py``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parents[1] / "src" / "holdfast"
PERSONS = ("nobody", "somebody", "whoever", "anybody", "everybody", "someone", "who", "whom", "a person")
BUILDING = ("house", "room", "rooms", "floor", "storey")
SPEECH = (
    *("said", "is told", "was told", "are told", "were told", "tells", "says that", "says so", "says why", "says more"),
    *("says nothing", "said in words", "what is asked", "asked for", "as asked", "without a word", "no word of"),
)
DIALECT = (
    *("mend", "mends", "mended", "anew", "goes on", "go on", "went on", "come home", "comes home"),
    *("looked after", "looks after", "look after", "gone again", "is gone", "are gone", "taken away", "takes away"),
    *("take away", "take this line away", "gives back", "give back", "gives some back", "is there already"),
    *("are there already", "is not there", "not there any more", "brought here", "brings it", "bring back"),
    *("brings it back", "hand on", "handed on", "hands on", "makes no sense", "is like that", "turns one round"),
    *("the same, asked", "as it was written", "as they were written", "not here whole", "hung up", "no way to"),
    *("cannot be called", "is no kind", "is no name", "that is no", "this is no", "in whose"),
    *("of ours", "of our own", "our own", "of yours", "one's own", "a word", "words", "shall be", "by chance"),
)
BANNED = re.compile(
    rf"(?<![\w-])({'|'.join(map(re.escape, (*PERSONS, *BUILDING, *SPEECH, *DIALECT)))})(?![\w-])", re.IGNORECASE
)
# Statements in SQL, programs that are sent elsewhere, and addresses are not text for people.
OTHER_LANGUAGE = re.compile(
    r"^\W*(SELECT|INSERT|DELETE|CREATE|PRAGMA|import |from )|(?<!\w)FROM words|\\[swbd]", re.MULTILINE
)

# Old texts that are still to be rewritten. Lower a number when you have removed such words; never raise one.
ALLOWED: dict[str, int] = {}


def test_messages_and_help_texts_avoid_banned_words() -> None:
    found: Counter[str] = Counter()
    lines = []
    for path in sorted(SOURCE.rglob("*.py")):
        for number, text in texts(path.read_text(encoding="utf-8")):
            for word in BANNED.findall(text):
                found[word.lower()] += 1
                lines.append(f"{path.relative_to(SOURCE)}:{number}: {word}: {text[:100]!r}")
    assert {word: count for word, count in found.items() if count > ALLOWED.get(word, 0)} == {}, "\n".join(lines)
    assert {word: count for word, count in ALLOWED.items() if found[word] < count} == {}, (
        "lower ALLOWED to these counts"
    )


def test_the_check_finds_banned_words_in_messages_only() -> None:
    source = '"""For whoever reads."""\n\ndef f():\n    """Nobody."""\n    return f"{f} was told by somebody", "who"\n'
    assert [word for _, text in texts(source) for word in BANNED.findall(text)] == ["was told", "somebody"]


def texts(source: str) -> Iterator[tuple[int, str]]:
    """String literals of two or more words, apart from docstrings, with their lines."""
    tree = ast.parse(source)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            text = node.value
            if len(text.split()) > 1 and not OTHER_LANGUAGE.search(text):
                yield node.lineno, text
