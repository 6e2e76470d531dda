"""Reads what scripts import and which names of a module they use, without running them.

Scripts are untrusted text. A file that today's Python cannot parse, such as one for Python 2, is read by patterns.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import warnings
from bisect import bisect_left

from holdfast.environments.files import inside
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.withdrawn import MODULES, TENSORFLOW_1_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.withdrawn import DeadModule

_MOST_BYTES = 1 << 18  # of one script
_MOST_TOGETHER = 1 << 20  # bytes of all scripts of a project: parsing takes about two seconds for each million
_MOST_FILES = 400
_DEEPEST = 8  # dots of a name
_SKIPPED = frozenset({"outputs", "docs", "node_modules", "__pycache__", "site-packages", "azureml-logs"})
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([\w, \t*]+)|import[ \t]+([\w., \t]+))", re.M)
_ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")


class Use(Record):
    """A dotted name that a script imports, or uses of something imported, with its line."""

    name: str
    line: int


class Script(Record):
    """A script as read; ``is_parsed`` is false where today's Python cannot parse it.

    ``is_text`` is false for UTF-16 and for binary files.
    """

    file: str
    uses: tuple[Use, ...]
    is_parsed: bool = True
    is_text: bool = True
    problem: str = ""
    problem_line: int = 0


def scripts(root: str) -> Iterator[str]:
    """The Python files of a project, relative to it and sorted; hidden folders and results are left out.

    No more than can be read in seconds: a larger script is left out, and so is what comes after many.
    """
    count, room = 0, _MOST_TOGETHER
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED)
        for file in sorted(files):
            size = _size(os.path.join(folder, file)) if file.endswith(".py") else None
            if size is None or size > _MOST_BYTES:
                continue
            count, room = count + 1, room - size
            if count > _MOST_FILES or room < 0:
                return
            yield os.path.relpath(os.path.join(folder, file), root).replace(os.sep, "/")


def read(root: str, file: str) -> Script | None:
    """What a script imports and uses; None where it cannot be read."""
    try:
        data = untrusted.read_file(os.path.join(root, file), _MOST_BYTES, root)
    except (OSError, ValueError):
        return None
    return _parsed(_decoded(data))._replace(file=file, is_text=b"\0" not in data)


@functools.lru_cache(_MOST_FILES)
def _parsed(text: str) -> Script:
    """Several checks read the same scripts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        return Script("", _once(_uses(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        return Script(
            "",
            _once(_by_pattern(text)),
            is_parsed=False,
            problem=str(getattr(error, "msg", error)),
            problem_line=line,
        )


def _once(uses: Iterator[tuple[str, int]]) -> tuple[Use, ...]:
    """Each name with the line where it is used first."""
    lines: dict[str, int] = {}
    for name, line in uses:
        lines.setdefault(name, line)
    return tuple(Use(name, line) for name, line in lines.items())


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def dead_modules(script: Script) -> Iterator[tuple[Use, str, DeadModule]]:
    """Each import that leads nowhere today, once for each script, with its name in the table."""
    named = set()
    for use in script.uses:
        for name, module in MODULES.items():
            if name not in named and (use.name == name or use.name.startswith(f"{name}.")):
                named.add(name)
                yield use, name, module


def is_for_tensorflow_1(root: str, script: str) -> bool:
    """Whether the script, or without one of TensorFlow any script of the project, is written for TensorFlow 1."""
    own = [parsed for file in _closure(root, script) if (parsed := read(root, file)) is not None]
    if any(_imports(parsed, "tensorflow") for parsed in own):
        return any(map(_uses_tensorflow_1, own))
    return any(_uses_tensorflow_1(parsed) for file in scripts(root) if (parsed := read(root, file)) is not None)


def _uses_tensorflow_1(script: Script) -> bool:
    names = (use.name.split(".") for use in script.uses if use.name.startswith("tensorflow."))
    return any(parts[1] in TENSORFLOW_1_NAMES for parts in names)


def _imports(script: Script, module: str) -> bool:
    return any(use.name.partition(".")[0] == module for use in script.uses)


def _closure(root: str, script: str) -> list[str]:
    """The script and the modules of the project that it imports."""
    pending = [script] if script.endswith(".py") else []
    seen: list[str] = []
    room = _MOST_TOGETHER
    while pending and len(seen) < _MOST_FILES and room > 0:
        file = pending.pop()
        if file in seen or (parsed := read(root, file)) is None:
            continue
        seen.append(file)
        room -= _size(os.path.join(root, file)) or 0
        for base in dict.fromkeys((os.path.dirname(file), "")):
            for use in parsed.uses:
                path = inside(root, base, f"{use.name.partition('.')[0]}.py")
                if path is not None and os.path.isfile(os.path.join(root, path)):
                    pending.append(path)
    return seen


def _decoded(data: bytes) -> str:
    for encoding in _ENCODINGS:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return ""


def _uses(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Imports under their full names, and attributes of imported modules: ``tf.Session`` is tensorflow.Session."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node.lineno
    for node in ast.walk(tree):
        name = _dotted(node) if isinstance(node, ast.Attribute) else ""
        first, _, rest = name.partition(".")
        if rest and first in known:
            yield f"{known[first]}.{rest}", getattr(node, "lineno", 0)


def _dotted(node: ast.AST) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _DEEPEST:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _by_pattern(text: str) -> Iterator[tuple[str, int]]:
    starts = [match.start() for match in re.finditer("\n", text)]
    for match in _IMPORT.finditer(text):
        line = bisect_left(starts, match.start()) + 1
        if match[1]:
            for name in match[2].split(","):
                yield f"{match[1]}.{name.split()[0] if name.split() else ''}".rstrip("."), line
        else:
            for name in match[3].split(","):
                if name.split():
                    yield name.split()[0], line
    if re.search(r"^[ \t]*import[ \t]+tensorflow[ \t]+as[ \t]+tf\b", text, re.M):
        for match in re.finditer(r"\btf\.(\w+)", text):
            yield f"tensorflow.{match[1]}", bisect_left(starts, match.start()) + 1
