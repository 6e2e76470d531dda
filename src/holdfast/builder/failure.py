"""The error of the builder: why an environment could not be built, and what to try."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .scrubbing import scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

# The first that is found in a tool's output names the kind: a full disk also fails builds and downloads.
SIGNS = (
    ("disk", re.compile(r"No space left on device|os error 28\b|Disk quota exceeded")),
    ("hash", re.compile(r"[Hh]ash mismatch|hashes? (?:do|does) not match")),
    (
        "unreachable",
        re.compile(
            r"network was disabled|error sending request|HTTP status|Failed to fetch|dns error|timed out"
            r"|error decoding response body|connection (?:refused|reset|closed)|Git operation failed",
            re.IGNORECASE,
        ),
    ),
    ("build", re.compile(r"building (?:source distributions|from source)[^\n]* is disabled", re.IGNORECASE)),
    ("compiler", re.compile(r"Failed to build|build backend returned an error")),
    ("platform", re.compile(r"no wheels with a matching|is not compatible with|is not supported on this platform")),
    ("unsatisfiable", re.compile(r"No solution found|not\s+found\s+in\s+the\s+package\s+registry|unsatisfiable")),
)
HINTS = {
    "disk": "free some space, or move HOLDFAST_HOME to a larger disk",
    "hash": "the file is not the one that was locked: lock again only if you know why it changed",
    "unreachable": "check the address, your connection and proxy settings, then try again",
    "build": "pin a version that has a wheel, or build a wheel and name it: pip wheel -w wheels NAME",
    "compiler": "install a C compiler (gcc or build-essential) on the target, or pin a version that has a wheel",
    "platform": "pin a version that has files for this platform and Python",
    "unsatisfiable": "loosen one of the requirements named above",
}
# git was not allowed to log in, or had nothing to log in with.
NO_LOGIN = re.compile(
    r"transport '\w+' not allowed|could not read (?:Username|Password)|unable to read askpass|Authentication failed"
)
# uv's hint about an index that refused its user; it goes over several lines where it is long.
DENIED = re.compile(
    r"hint: An index URL \((?P<index>[^)\s]*)\) could not be queried[^()]*\((?P<status>\d{3}[^)]*)\)", re.DOTALL
)
# It goes over several lines where it is long.
NOT_FOUND = re.compile(r"not\s+found\s+in\s+the\s+package\s+registry")
UNBUILT = re.compile(r"(?:distributions for|required for) `([^`]+)`")
NO_SUCH_PACKAGE = "check the spelling: the package may have another name than its module"
NO_GIT = "install git on the target: a requirement refers to a git repository"
KILLED = "the machine may have run out of memory; run it again: downloaded files are kept"
LONGEST = 2000


class Failed(Exception):
    """The request cannot be done; ``kind`` sorts it, ``package`` is the one at fault, the rest is for people."""

    def __init__(self, kind: str, what: str, *, where: str = "", hint: str = "", package: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.where = where
        self.hint = hint
        self.package = package

    def event(self, tail: Sequence[str] = ()) -> dict[str, Any]:
        texts = {"kind": self.kind, "what": scrub(self.what), "where": scrub(self.where), "hint": scrub(self.hint)}
        texts["package"] = scrub(self.package)
        return {"event": "failed", **texts, "tail": list(tail)}


def from_output(lines: Sequence[str], where: str, otherwise: str = "internal") -> Failed:
    """The error behind a tool's last lines."""
    text = "\n".join(lines)
    if denied := DENIED.search(text):
        what = f"the index {denied['index']} answered {denied['status']}: {_plain(lines)}"
        return Failed("unreachable", what[:LONGEST], where=where, hint="check the user name and password of this index")
    kind = next((kind for kind, sign in SIGNS if sign.search(text)), otherwise)
    # Of a build that failed or was not allowed, uv's hint says no more than that.
    no_use = kind in ("build", "compiler")
    hints = [line.partition("hint: ")[2] for line in lines if line.startswith("hint: ") and not no_use]
    usual = NO_SUCH_PACKAGE if kind == "unsatisfiable" and NOT_FOUND.search(text) else HINTS.get(kind, "")
    hint = NO_GIT if "Git executable not found" in text else " ".join(hints) or usual
    unbuilt = UNBUILT.search(text) if kind == "build" else None
    return Failed(kind, _plain(lines)[:LONGEST], where=where, hint=hint, package=unbuilt[1] if unbuilt else "")


def _plain(lines: Sequence[str]) -> str:
    """``error: A / cause: B / (more of B)`` as ``A: B more of B``; anything else as it is."""
    sentences: list[str] = []
    for line in lines:
        text = " ".join(line.split())
        if line.startswith(("error: ", "  cause: ")):
            sentences.append(text.partition(": ")[2])
        elif sentences and line.startswith("         ") and text:
            sentences[-1] += f" {text}"
        elif sentences and line.startswith("hint: "):
            break
    return ": ".join(sentences) or " ".join(" ".join(lines).split()) or "it ended without a message"
