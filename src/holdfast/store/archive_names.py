"""What an archive of runs may hold, name by name. Pure: it looks at the directory of the zip and opens nothing.

    holdfast-runs.json                     {"v": 1, "kind": "holdfast-runs", "holdfast": version, "runs": [uids]}
    runs/<uid>/run.json, client.jsonl, git.diff
    runs/<uid>/a1/...                      the files of an attempt, and metrics/, gpu/, outputs/
    objects/ab/cdef...                     the objects of their snapshots

A zip from elsewhere may name any file, hold one twice, or promise little and become much. What is not on this list
is refused, and with it the whole archive.
"""

from __future__ import annotations

import re
import stat

from holdfast.errors import UsageError
from holdfast.runner import untrusted
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from zipfile import ZipInfo

NOTE = "holdfast-runs.json"
OF_A_RUN = (layout.request.name, layout.client.name, layout.git_diff.name)
OF_AN_ATTEMPT = tuple(
    file.name
    for file in (
        *(layout.plan, layout.events, layout.control, layout.log, layout.runner_log),
        *(layout.environment_log, layout.engine_log, layout.manifest),
    )
)
FOLDERS = tuple(file.name for file in layout.mirrored_folders)
_FILES = "|".join(map(re.escape, OF_AN_ATTEMPT))
_OF_RUN = rf"(run\.json|client\.jsonl|git\.diff|a[1-9][0-9]{{0,3}}/({_FILES}|(metrics|gpu)/[^/]+|outputs/.+))"
_RUN_FILE = re.compile(_OF_RUN, re.DOTALL)
_NAME = re.compile(
    rf"{re.escape(NOTE)}|objects/[0-9a-f]{{2}}/[0-9a-f]{{62}}|runs/[0-9a-f]{{32}}/{_OF_RUN}",
    re.DOTALL,
)
_MOST_ENTRIES = 2_000_000
_ENCRYPTED = 0x1
_STORED, _DEFLATED = 0, 8
_GROWS, _ALWAYS = 200, 64 << 20  # an archive may become this many times its size, and this much more
_HEADER = 30


def check(entries: list[ZipInfo], size: int, where: str) -> None:
    """``size`` is the length of the file. UsageError where anything is not as we would have written it."""
    if len(entries) > _MOST_ENTRIES:
        raise refused(where, f"it has {len(entries)} files")
    for entry in entries:
        problem = name_problem(entry.filename) or _kind_problem(entry)
        if problem:
            raise refused(where, f"{entry.orig_filename!a}: {problem}")
    problem = clash(entry.filename for entry in entries) or _overlap(entries)
    if problem:
        raise refused(where, problem)
    total = sum(entry.file_size for entry in entries)
    if total > _GROWS * size + _ALWAYS:
        raise refused(where, f"its {size} bytes would become {total}")


def name_problem(name: str) -> str:
    """Why a file of this name cannot be in an archive; empty where it can."""
    try:
        untrusted.relative(name)
        name.encode()
    except untrusted.Untrusted:
        return "this name leads out of the archive"
    except UnicodeEncodeError:
        return "its name is not a string"
    parts = name.split("/")
    if not _NAME.fullmatch(name) or "\\" in name:
        return "this is not a file of a run"
    return "" if all(part.isprintable() and part == part.rstrip(". ") for part in parts) else "not a valid file name"


def is_run_file(name: str) -> bool:
    """Whether a run's folder may have a file of this name; which letters it has is left to the file system."""
    try:
        return bool(_RUN_FILE.fullmatch(untrusted.relative(name)))
    except untrusted.Untrusted:
        return False


def clash(names: Iterable[str]) -> str:
    """Two names that are one file on some machine; and a file where another name needs a folder."""
    return next((problem for _, problem in clashes(names)), "")


def clashes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """All names that cannot be in one archive with the others, and why; without them the others can."""
    from unicodedata import normalize

    seen: dict[str, str] = {}
    for name in names:
        folded = normalize("NFC", normalize("NFC", name).casefold())
        if folded in seen:
            yield name, f"{seen[folded]!a} and {name!a} would be the same file"
        else:
            seen[folded] = name
    for folded, name in seen.items():
        above = folded.rpartition("/")[0]
        while above and above not in seen:
            above = above.rpartition("/")[0]
        if above:
            yield name, f"{seen[above]!a} is a file and the folder of {name!a}"


def refused(where: str, answer: str) -> UsageError:
    hint = "it was not written by holdfast history export, or was changed since"
    return UsageError("this archive is refused; nothing was imported", where=where, answer=answer, hint=hint)


def _kind_problem(entry: ZipInfo) -> str:
    if entry.filename != entry.orig_filename:
        return "it has two names"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "it is not a regular file"
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (_STORED, _DEFLATED):
        return "it uses an unsupported compression"
    return ""


def _overlap(entries: list[ZipInfo]) -> str:
    """Files that share their bytes: so few bytes become very many."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            return f"{entry.filename!a} overlaps another file"
        end = entry.header_offset + _HEADER + entry.compress_size
    return ""
