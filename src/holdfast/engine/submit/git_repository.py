"""Reads a git repository from its files: its folder, its HEAD, and the settings that only describe data.

Nothing here runs a program, follows a link out of the repository or waits for a FIFO. A repository of another user is
not looked at, as git does it.
"""

from __future__ import annotations

import os
import sys

from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST_REFS = 16 << 20
_LARGEST_CONFIG = 1 << 20
_HEX = frozenset("0123456789abcdef")
# Used, and re imported, only where a repository is found.
_SECTION = r'\[\s*([A-Za-z0-9.-]+)\s*(?:("(?:[^"\\]|\\.)*")\s*)?\](.*)'
_ENTRY = r'([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^;#"]*))?'
# How files in the work tree differ from those in commits. None of these names a program or a path.
_DESCRIBING = frozenset(
    ["filemode", "symlinks", "ignorecase", "autocrlf", "eol", "precomposeunicode", "trustctime", "checkstat"]
)
_PLAIN = r"[A-Za-z0-9]{0,12}"


class Repository(Record):
    """``folder`` is a work tree's own folder (HEAD, index); ``common`` is that of all its work trees (refs, objects).

    ``is_comparable`` is False where the work tree cannot be compared with the commit: refs in a format that is not read
    here, or a ``.git`` file that points to a repository which does not know this work tree.
    """

    work_tree: str
    folder: str
    common: str
    is_comparable: bool

    def head(self) -> tuple[str | None, str | None]:
        """The commit that is checked out, None before the first one; the branch, None where there is none."""
        head = _text(os.path.join(self.folder, "HEAD"), within=self.common).strip()
        if not head.startswith("ref:"):
            return _commit(head), None
        ref = head.partition(":")[2].strip()
        if not ref.startswith("refs/") or not _is_name(ref) or _has_reftable(self.common):
            return None, None
        branch = ref.removeprefix("refs/heads/")
        for folder in (self.folder, self.common):
            commit = _commit(_text(os.path.join(folder, ref), within=self.common).strip())
            if commit:
                return commit, branch
        return self._packed(ref), branch

    def settings(self) -> dict[str, str]:
        """Options for git that describe the work tree, and the files that the user's own configuration names."""
        import re

        options = dict(_users())
        options.update(
            (name, value)
            for name, value in _entries(os.path.join(self.common, "config"), self.common)
            if name.startswith("core.") and name[5:] in _DESCRIBING and re.fullmatch(_PLAIN, value)
        )
        attributes = os.path.join(self.common, "info", "attributes")
        if os.path.isfile(attributes):
            options["core.attributesFile"] = attributes
        return options

    def excludes(self) -> list[str]:
        """Files with more ignore patterns."""
        path = os.path.join(self.common, "info", "exclude")
        return [path] if os.path.isfile(path) else []

    def _packed(self, ref: str) -> str | None:
        for line in _text(os.path.join(self.common, "packed-refs"), _LARGEST_REFS, self.common).splitlines():
            commit, _, name = line.partition(" ")
            if name == ref:
                return _commit(commit)
        return None


def find(root: str) -> Repository | None:
    """The repository whose work tree ``root`` is in. Bare repositories have no work tree and are passed over."""
    work_tree = os.path.realpath(root)
    while True:
        entry = os.path.join(work_tree, ".git")
        if os.path.isdir(entry):
            return _found(work_tree, entry, entry, is_known=True)
        if os.path.isfile(entry):
            named = _text(entry).partition("gitdir:")[2].strip()
            folder = os.path.realpath(os.path.join(work_tree, named))
            return _found(work_tree, entry, folder, is_known=_names_back(folder, work_tree)) if named else None
        parent = os.path.dirname(work_tree)
        if parent == work_tree:
            return None
        work_tree = parent


def _found(work_tree: str, entry: str, folder: str, *, is_known: bool) -> Repository | None:
    if not os.path.isfile(os.path.join(folder, "HEAD")):
        return None
    if not all(_is_ours(path) for path in (work_tree, entry, folder)) and not _is_declared_safe(work_tree):
        return None
    common = os.path.realpath(os.path.join(folder, _text(os.path.join(folder, "commondir")).strip()))
    if common != os.path.dirname(os.path.dirname(folder)):  # of a linked work tree: COMMON/worktrees/NAME
        common = folder
    return Repository(work_tree, folder, common, is_known and not _has_reftable(common))


def _names_back(folder: str, work_tree: str) -> bool:
    """Whether a repository elsewhere knows this work tree. Without that, any folder could claim the user's others."""
    linked = _text(os.path.join(folder, "gitdir")).strip()
    if linked:
        return os.path.realpath(os.path.join(folder, linked)) == os.path.join(work_tree, ".git")
    for name, value in _entries(os.path.join(folder, "config"), folder):
        if name == "core.worktree":
            return os.path.realpath(os.path.join(folder, value)) == work_tree
    return False


def _is_ours(path: str) -> bool:
    if sys.platform == "win32":
        return True
    owners = {os.geteuid()}
    sudo = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and sudo.isdigit():
        owners.add(int(sudo))
    return os.lstat(path).st_uid in owners


def _is_declared_safe(work_tree: str) -> bool:
    """By the user's own configuration, as git reads it."""
    directories = [value for path in _user_files() for name, value in _entries(path) if name == "safe.directory"]
    return "*" in directories or work_tree in directories


def _users() -> Iterator[tuple[str, str]]:
    ignored = os.path.join(_config_home(), "git", "ignore")
    for path in _user_files():
        for name, value in _entries(path):
            if name == "core.excludesfile":
                ignored = os.path.expanduser(value)
            elif name in ("core.autocrlf", "core.eol"):
                yield name, value
    if os.path.isfile(ignored):
        yield "core.excludesFile", ignored


def _user_files() -> tuple[str, ...]:
    return os.path.join(_config_home(), "git", "config"), os.path.expanduser("~/.gitconfig")


def _config_home() -> str:
    return os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")


def _entries(path: str, within: str | None = None) -> Iterator[tuple[str, str]]:
    """``section.key`` and value of a configuration file, names in lower case; no includes, no subsections."""
    import re

    section = ""
    for line in _text(path, _LARGEST_CONFIG, within).splitlines():
        rest = line.strip()
        header = re.match(_SECTION, rest)
        if header:
            section = "" if header[2] else header[1].lower()
            rest = header[3].strip()
        entry = re.match(_ENTRY, rest) if section else None
        if entry:
            value = "true" if entry[2] is None else entry[2].strip()
            yield f"{section}.{entry[1].lower()}", value.strip('"')


def _has_reftable(common: str) -> bool:
    return os.path.isdir(os.path.join(common, "reftable"))


def _is_name(ref: str) -> bool:
    try:
        untrusted.relative(ref)
    except untrusted.Untrusted:
        return False
    return True


def _commit(text: str) -> str | None:
    return text if len(text) in (40, 64) and set(text) <= _HEX else None


def _text(path: str, limit: int = 4096, within: str | None = None) -> str:
    try:
        return readable(untrusted.read_file(path, limit, within))
    except (OSError, untrusted.Untrusted):
        return ""
