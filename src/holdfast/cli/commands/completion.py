"""``holdfast completion``: scripts for bash, zsh and fish, which ask this command for what can be typed next.

The words typed so far come on stdin: as arguments, other users would see a password among them.
"""

from __future__ import annotations

import os
import shlex
import sys

from holdfast.cli.candidates import Candidates, complete
from holdfast.errors import UsageError
from holdfast.location import PACKAGE
from holdfast.present.terminal import show
from holdfast.runner.decoding import lossless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.cli.parse import Parsed

SHELLS = ("bash", "zsh", "fish")


def completion(parsed: Parsed) -> int:
    shell = parsed.text("shell") or ""
    if shell not in SHELLS:
        raise UsageError(f"no completion for {shell!r}", hint=f"one of {', '.join(SHELLS)}")
    if not parsed.flag("candidates"):
        with open(os.path.join(PACKAGE, "cli", "completions", f"holdfast.{shell}"), encoding="utf-8") as source:
            sys.stdout.write(source.read())
        return 0
    sent = lossless(sys.stdin.buffer.read()).removesuffix("\0").split("\0")
    if shell == "bash":
        breaks, line = (*sent, "")[:2]
        tokens = split_line(line)[1:] or [""]
        dropped = _after_break(tokens[-1], breaks)
    else:
        tokens, dropped = sent, 0
    candidates = complete(tokens)
    sys.stdout.writelines(f"{line}\n" for line in (candidates.files or "words", *_lines(shell, candidates, dropped)))
    return 0


def split_line(line: str) -> list[str]:
    """The words of a command line of bash up to the cursor, without quotes; the last one may be incomplete."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    tokens: list[str] = []
    try:
        tokens.extend(lexer)
    except ValueError:  # a quote or an escape is not closed yet
        return [*tokens, lexer.token]
    return [*tokens, ""] if not line or (line[-1:].isspace() and line[-2:-1] != "\\") else tokens


def _after_break(word: str, breaks: str) -> int:
    """Bash replaces only what follows the last of its breaking characters in a word, such as ``=``."""
    return max(word.rfind(char) if char in breaks else -1 for char in "=:") + 1


def _lines(shell: str, candidates: Candidates, dropped: int) -> Iterable[str]:
    for candidate in candidates.words:
        word, phrase = show(candidate.word), show(candidate.phrase)
        if shell == "bash":
            yield shlex.quote(word[dropped:])
        elif shell == "zsh":
            yield word.replace("\\", "\\\\").replace(":", "\\:") + (f":{phrase}" if phrase else "")
        else:
            yield f"{word}\t{phrase}" if phrase else word
