"""Decides what a snapshot leaves out: git's ignore files, .amlignore, fixed names, likely secrets.

Paths are bytes below the project's root, with ``/`` between names. Later rules win: ``.git/info/exclude``, then the
``.gitignore`` files from the root down, then the ``.amlignore`` files from the root down.
"""

from __future__ import annotations

import os
import stat

from holdfast.errors import ConfigError
from holdfast.record import Record
from holdfast.runner.decoding import readable
from holdfast.runner.ignore_patterns import Pattern, Patterns, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_ALWAYS = frozenset((b".git", b".azuremlhistory_git", b"azureml-logs", b"__pycache__", b".ipynb_checkpoints"))
_ALWAYS_AT_ROOT = frozenset((b"outputs", b"docs"))
_IDENTITY_BEING_WRITTEN = b".holdfast-project."  # by another submit at this moment
_GITIGNORE = b".gitignore"
_AMLIGNORE = b".amlignore"
IGNORE_FILES = (_GITIGNORE, _AMLIGNORE)
KEEPIGNORE = ".keepignore"  # which files outside outputs/ are never results, in the form of a .gitignore

_PASSWORDS = (
    b".netrc",
    b"_netrc",
    b".pypirc",
    b".pgpass",
    b".my.cnf",
    b".git-credentials",
    b".htpasswd",
    b".vault-token",
)
_SECRET_NAMES = {
    **dict.fromkeys(_PASSWORDS, "a password file"),
    b"kubeconfig": "a cluster credential",
    b"kaggle.json": "a cloud credential",
    b"application_default_credentials.json": "a cloud credential",
    b"accessTokens.json": "a cloud credential",
    b"msal_token_cache.json": "a cloud credential",
    **dict.fromkeys(
        (b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ecdsa_sk", b"id_ed25519", b"id_ed25519_sk"), "a private key"
    ),
}
_SECRET_PATHS = {
    b"/.aws/credentials": "a cloud credential",
    b"/.kube/config": "a cluster credential",
    b"/.docker/config.json": "a registry token",
    b"/.config/gh/hosts.yml": "a registry token",
    b"/huggingface/token": "a registry token",
    b"/.huggingface/token": "a registry token",
}
_SECRET_PATH_NAMES = frozenset(path.rpartition(b"/")[2] for path in _SECRET_PATHS)
_SECRET_FOLDERS = {
    b".ssh": "a folder of SSH keys",
    b".gnupg": "a folder of private keys",
    b".password-store": "a folder of passwords",
    b".azure": "a folder of cloud credentials",
    b"gcloud": "a folder of cloud credentials",
}
_SECRET_ENDINGS = {b".kubeconfig": "a cluster credential", b".ppk": "a private key", b".kdbx": "a password file"}
_HARMLESS_ENV = (b".example", b".sample", b".template", b".dist")
_TELLING_JSON = ((b"PRIVATE KEY-----",), (b'"client_secret"', b'"refresh_token"'), (b'"clientId"', b'"clientSecret"'))
SECRET_HEAD = 4096
_LARGEST_KEY = 1 << 15
_LARGEST_FILE = 1 << 20
_LONGEST_PATTERN = 4096  # bytes; no path is longer
_MOST_PATTERNS = 5000  # each is compared with each file
_MOST_IN_FORCE = 10_000  # of all files that apply to one folder


def foreign_files(root: str) -> list[str]:
    """Ignore files of the project that a snapshot does not follow unless the user confirms it."""
    trusted = _trusted_owners(os.fsencode(root))
    paths = (
        os.path.join(folder, os.fsdecode(name))
        for folder, _, names in os.walk(root)
        for name in (*IGNORE_FILES, KEEPIGNORE.encode("ascii"))
        if os.fsdecode(name) in names
    )
    return [path for path in paths if trusted is not None and os.lstat(path).st_uid not in trusted]


def refuse_foreign(path: str, root: str) -> None:
    """An error for an ignore file that another user put there: it could leave out files, or ask for secret ones."""
    trusted = _trusted_owners(os.fsencode(root))
    if trusted is not None and os.lstat(path).st_uid not in trusted:
        from holdfast import project

        project.refuse_foreign(path, root)


class Rule(Record):
    """The line that decided. A rule of our own has no file; its pattern is a phrase."""

    file: str
    line: int
    pattern: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} `{self.pattern}`" if self.file else self.pattern


def explain(root: str, relpath: str) -> Rule | None:
    """The rule that keeps a file, or a folder above it, out of every snapshot of the project; None if none does."""
    folder = os.fsencode(root)
    rules = Rules.of_project(folder, frozenset(os.listdir(folder)))
    path = b""
    for name in os.fsencode(os.path.normpath(relpath)).split(b"/"):
        path = path + b"/" + name if path else name
        folder = os.path.join(folder, name)
        is_folder = os.path.isdir(folder) and not os.path.islink(folder)
        if rule := rules.leaves_out(name, path, is_folder):
            return rule
        if not is_folder:
            return _explain_secret(folder, name, path, rules)
        if (kind := secret_folder(name, path)) and not rules.insist_on(name, path, is_folder=True):
            return Rule("", 0, f"it looks like {kind}")
        names = frozenset(os.listdir(folder))
        if rule := marked_folder(names):
            return rule
        rules = rules.inside(folder, path, names)
    return None


def marked_folder(names: Collection[bytes]) -> Rule | None:
    """A folder that says by its content that it is no part of a project."""
    if b"pyvenv.cfg" in names:
        return Rule("", 0, "a Python environment (it holds pyvenv.cfg)")
    if b"store.json" in names and b"objects" in names:
        return Rule("", 0, "a Holdfast store (it holds store.json)")
    return None


def secret_folder(name: bytes, path: bytes) -> str:
    """What a folder of this name is likely to hold that is secret, or an empty string."""
    if name == b"gcloud" and not (b"/" + path).endswith(b"/.config/gcloud"):
        return ""
    return _SECRET_FOLDERS.get(name, "")


def secret_by_name(name: bytes, path: bytes) -> str:
    """What kind of secret a file of this name is likely to be, or an empty string."""
    if name.startswith(b".env"):
        return (
            "an environment file" if name == b".env" or (name[4:5] == b"." and not name.endswith(_HARMLESS_ENV)) else ""
        )
    if name in _SECRET_PATH_NAMES:
        return next((kind for end, kind in _SECRET_PATHS.items() if (b"/" + path).endswith(end)), "")
    return _SECRET_NAMES.get(name) or _SECRET_ENDINGS.get(os.path.splitext(name)[1], "")


def secret_by_content(name: bytes, status: os.stat_result, read_head: Callable[[], bytes]) -> str:
    """The same, for names that say nothing by themselves: ``read_head`` gives the first SECRET_HEAD bytes.

    OpenSSH uses a private key only if no other user can read it; so of files with any other name, only those are read.
    """
    if stat.S_IMODE(status.st_mode) & 0o077 == 0 and status.st_size <= _LARGEST_KEY:
        first = read_head().lstrip().partition(b"\n")[0].rstrip()
        if first.startswith(b"-----BEGIN ") and first.endswith(b"PRIVATE KEY-----"):
            return "a private key"
    if name.endswith((b".pem", b".key")):
        return "a private key" if b"PRIVATE KEY-----" in read_head() else ""
    if name.endswith(b".json"):
        head = read_head()
        return "a cloud credential" if any(all(word in head for word in marks) for marks in _TELLING_JSON) else ""
    if name == b".npmrc":
        values = [
            line.partition(b"=")[2].strip()
            for line in read_head().splitlines()
            if b"_auth" in line or b"_password" in line
        ]
        return "a registry token" if any(value and not value.startswith(b"${") for value in values) else ""
    return ""


class Rules:
    """All rules that are in force in one folder. Folders without ignore files share those of the folder above."""

    def __init__(self, from_git: tuple[Patterns, ...], from_aml: tuple[Patterns, ...], count: int, root: bytes) -> None:
        """The patterns of each file, from the root down. The tables of a file are shared by all folders below it."""
        self._from_git = from_git
        self._from_aml = from_aml
        self._count = count
        self._root = root
        self._last_first = (from_git + from_aml)[::-1]

    @classmethod
    def of_project(cls, root: bytes, names: Collection[bytes]) -> Rules:
        exclude = _git_info_exclude(root) if b".git" in names else b""
        return cls.with_exclude(exclude, root).inside(root, b"", names)

    @classmethod
    def with_exclude(cls, exclude: bytes, root: bytes) -> Rules:
        """The rules above those of the project's own files; ``exclude`` is the content of ``.git/info/exclude``."""
        patterns = tuple(_parse(exclude, b".git/info/exclude", b""))
        return cls((Patterns(patterns),) if patterns else (), (), len(patterns), root)

    def inside(self, folder: bytes, path: bytes, names: Collection[bytes]) -> Rules:
        """The rules for the entries of ``folder``, which is at ``path`` and has ``names``."""
        return self.with_files(
            path, lambda file: _read_rules(os.path.join(folder, file), self._root) if file in names else b""
        )

    def with_files(self, path: bytes, read: Callable[[bytes], bytes]) -> Rules:
        """The same, with the content of its ignore files from ``read``."""
        base = path + b"/" if path else b""
        count = self._count
        more: list[tuple[Patterns, ...]] = []
        for file in IGNORE_FILES:
            patterns = tuple(_parse(read(file), base + file, base, count))
            count += len(patterns)
            more.append((Patterns(patterns),) if patterns else ())
        return Rules(self._from_git + more[0], self._from_aml + more[1], count, self._root) if any(more) else self

    def leaves_out(self, name: bytes, path: bytes, is_folder: bool) -> Rule | None:
        if name in _ALWAYS or path in _ALWAYS_AT_ROOT or path.startswith(_IDENTITY_BEING_WRITTEN):
            return Rule("", 0, f"`{os.fsdecode(path)}` is never sent")
        pattern = self._last(name, path, is_folder)
        return None if pattern is None or pattern.negative else _rule(pattern)

    def insist_on(self, name: bytes, path: bytes, *, is_folder: bool = False) -> bool:
        """Whether a ``!`` line of an .amlignore asks for this file or folder."""
        pattern = self._last(name, path, is_folder)
        return pattern is not None and pattern.negative and os.path.basename(pattern.file) == _AMLIGNORE

    def _last(self, name: bytes, path: bytes, is_folder: bool) -> Pattern | None:
        for patterns in self._last_first:
            if pattern := patterns.last(name, path, is_folder):
                return pattern
        return None


class StoredRules:
    """The rules of a stored tree: its ignore files by their path, and the repository's info/exclude as it is now."""

    def __init__(self, root: bytes, contents: Mapping[bytes, bytes]) -> None:
        self._contents = contents
        above = Rules.with_exclude(_git_info_exclude(root), root)
        self._folders = {b"": above.with_files(b"", lambda file: contents.get(file, b""))}

    def leaves_out(self, path: bytes) -> bool:
        """Whether a file at this path would not have been part of the tree."""
        above = b""
        for name in path.split(b"/"):
            rules = self._inside(above)
            above = above + b"/" + name if above else name
            is_folder = above != path
            if rules.leaves_out(name, above, is_folder):
                return True
            kind = secret_folder(name, above) if is_folder else secret_by_name(name, above)
            if kind and not rules.insist_on(name, above, is_folder=is_folder):
                return True
        return False

    def _inside(self, folder: bytes) -> Rules:
        if folder not in self._folders:
            parent = self._inside(os.path.dirname(folder))
            self._folders[folder] = parent.with_files(
                folder, lambda file: self._contents.get(folder + b"/" + file, b"")
            )
        return self._folders[folder]


def _parse(data: bytes, file: bytes, base: bytes, above: int = 0) -> Iterator[Pattern]:
    """``above`` is the number of patterns of other files that apply to the same folder."""
    for count, pattern in enumerate(parse(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), file, base), start=1):
        where = f"{os.fsdecode(file)}:{pattern.line}"
        if len(pattern.written) > _LONGEST_PATTERN:
            raise ConfigError(f"this pattern is longer than {_LONGEST_PATTERN} bytes", where=where, hint="shorten it")
        if count > _MOST_PATTERNS:
            hint = "name folders instead of files"
            raise ConfigError(f"more than {_MOST_PATTERNS} patterns in one file", where=where, hint=hint)
        if above + count > _MOST_IN_FORCE:
            what = f"more than {_MOST_IN_FORCE} patterns apply to this folder, with those of the folders above it"
            raise ConfigError(what, where=where, hint="name folders instead of files")
        yield pattern


def _rule(pattern: Pattern) -> Rule:
    return Rule(os.fsdecode(pattern.file), pattern.line, readable(pattern.written))


def _explain_secret(file: bytes, name: bytes, path: bytes, rules: Rules) -> Rule | None:
    try:
        status = os.stat(file, follow_symlinks=False)
    except OSError:
        return None
    kind = secret_by_name(name, path) or secret_by_content(name, status, lambda: _read_regular(file, SECRET_HEAD))
    return Rule("", 0, f"it looks like {kind}") if kind and not rules.insist_on(name, path) else None


def _git_info_exclude(root: bytes) -> bytes:
    """The content of info/exclude, also where .git is a file that points elsewhere (a work tree, a submodule)."""
    git = os.path.join(root, b".git")
    pointer = _read_regular(git)
    if pointer.startswith(b"gitdir: "):
        git = os.path.join(root, pointer[8:].rstrip(b"\r\n"))
        common = _read_regular(os.path.join(git, b"commondir"))
        if common:
            git = os.path.join(git, common.rstrip(b"\r\n"))
    return _read_rules(os.path.join(git, b"info", b"exclude"), root)


def _read_rules(path: bytes, root: bytes) -> bytes:
    data = _read_regular(path)
    if data:
        refuse_foreign(os.fsdecode(path), os.fsdecode(root))
    return data


def _trusted_owners(root: bytes) -> tuple[int, ...] | None:
    """Whose ignore files are followed: also those of the owner of the folder, unless all users can write there."""
    from holdfast.runner.untrusted import own_ids
    from holdfast.trust import ownership

    if os.name == "nt":
        return None
    owner = () if ownership.is_shared(os.fsdecode(root)) else (os.stat(root).st_uid,)
    return (0, *own_ids(), *owner)


def _read_regular(path: bytes, head: int = 0) -> bytes:
    """The content of a regular file; nothing for anything else, as git treats an ignore file that is a link."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return b""
    with open(descriptor, "rb") as stream:
        data = stream.read(head or _LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:  # to pass over its rules would send what it leaves out
        raise ConfigError(
            f"is larger than {_LARGEST_FILE >> 20} MiB: this is not a pattern file", where=os.fsdecode(path)
        )
    return data
