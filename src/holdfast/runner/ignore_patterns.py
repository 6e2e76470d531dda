"""Lines of ignore files with git's meaning: parsed, and many of them matched against a name at once.

Paths are bytes with ``/`` between names, relative to one folder.
"""

from .wildmatch import Globs, plain_length

MYPY = False
if MYPY:
    from collections.abc import Iterable, Iterator


class Pattern:
    """One line of an ignore file. Without ``base`` it is compared with names, else with whole paths."""

    __slots__ = ("base", "file", "folders_only", "glob", "line", "negative", "written")

    def __init__(self, file: "bytes", line: "int", written: "bytes", glob: "bytes", base: "bytes | None") -> "None":
        self.file = file
        self.line = line
        self.written = written
        self.glob = glob
        self.base = base
        self.negative = written.startswith(b"!")
        self.folders_only = written.endswith(b"/")


class Patterns:
    """Patterns in the order in which they were written: the last one that matches decides."""

    def __init__(self, patterns: "tuple[Pattern, ...]") -> "None":
        self._for_folders = _Table(patterns)
        self._for_files = _Table(tuple(pattern for pattern in patterns if not pattern.folders_only))

    def last(self, name: "bytes", path: "bytes", is_folder: "bool") -> "Pattern | None":
        """The last pattern that matches the entry ``name`` at ``path``."""
        return (self._for_folders if is_folder else self._for_files).last(name, path)

    def ignores(self, name: "bytes", path: "bytes", is_folder: "bool") -> "bool":
        pattern = self.last(name, path, is_folder)
        return pattern is not None and not pattern.negative


class _Table:
    """Finds the last of many patterns that matches, without trying them one by one."""

    def __init__(self, patterns: "tuple[Pattern, ...]") -> "None":
        self._patterns = patterns
        self._names = {}  # type: dict[bytes, int]
        self._paths = {}  # type: dict[bytes, int]
        self._endings = {}  # type: dict[bytes, int]
        self._wild_names = Globs()
        self._wild_paths = Globs()
        for index, pattern in enumerate(patterns):
            self._enter(index, pattern)
        self._any_ending = tuple(self._endings)

    def _enter(self, index: "int", pattern: "Pattern") -> "None":
        glob, base = pattern.glob, pattern.base
        plain = plain_length(glob)
        if plain == len(glob):
            if base is None:
                self._names[glob] = index
            else:
                self._paths[base + glob] = index
        elif base is not None:
            # git compares the plain beginning first, so a `**` right behind it stands at a beginning, too
            self._wild_paths.add(index, base + glob[:plain], glob[plain:], in_path=True)
        elif glob[:1] == b"*" and plain_length(glob[1:]) == len(glob) - 1:
            self._endings[glob[1:]] = index
        else:
            self._wild_names.add(index, b"", glob, in_path=False)

    def last(self, name: "bytes", path: "bytes") -> "Pattern | None":
        best = self._names.get(name, -1)
        if self._paths:
            best = max(best, self._paths.get(path, -1))
        if name.endswith(self._any_ending):
            best = max([best] + [index for ending, index in self._endings.items() if name.endswith(ending)])
        if self._wild_names:
            best = max(best, self._wild_names.last(name))
        if self._wild_paths:
            best = max(best, self._wild_paths.last(path))
        return self._patterns[best] if best >= 0 else None


def parse(lines: "Iterable[bytes]", file: "bytes", base: "bytes") -> "Iterator[Pattern]":
    """``base`` is the path of the folder that the lines are about, with a slash behind it; empty for the top."""
    for number, line in enumerate(lines, 1):
        if line.startswith(b"#"):
            continue
        written = _without_trailing_spaces((line[:-1] if line.endswith(b"\r") else line).partition(b"\0")[0])
        glob = written[1:] if written.startswith(b"!") else written
        glob = glob[:-1] if glob.endswith(b"/") else glob
        if b"/" not in glob:
            by_name = True
        else:
            glob = glob[1:] if glob.startswith(b"/") else glob
            by_name = glob.startswith(b"**/") and b"/" not in glob[3:]
            if by_name:
                glob = glob[3:]
        if glob:
            yield Pattern(file, number, written, glob, None if by_name else base)


def _without_trailing_spaces(line: "bytes") -> "bytes":
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    # An odd backslash at the end quotes the first of the spaces.
    return line[: len(stripped) + 1] if backslashes % 2 else stripped
