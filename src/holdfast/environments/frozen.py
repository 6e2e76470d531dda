"""``uv.lock`` and ``pylock.toml``: already solved, so they are taken as they are."""

from __future__ import annotations

import re

from holdfast.amlconfig.types import Finding
from holdfast.environments.files import exists, read_text
from holdfast.environments.pyproject import FILE, is_package, parse_toml, requirements, requires_python
from holdfast.environments.spec import Spec
from holdfast.errors import ConfigError

_OWN = re.compile(r'^source = \{ (?:virtual|editable) = "\." \}$', re.MULTILINE)


def read_uv_lock(root: str, file: str) -> tuple[Spec, list[Finding]]:
    text = read_text(root, file)
    # Megabytes of packages follow, and nothing of them is needed here.
    document = parse_toml(file, text.partition("\n[")[0])
    if not exists(root, FILE):
        raise ConfigError(
            f"this file belongs to a {FILE}, which does not exist", where=file, hint=f"restore {FILE} or delete {file}"
        )
    if document.get("version") != 1:
        raise ConfigError("this file has an unsupported version", where=file, hint="run uv lock with a current uv")
    project = parse_toml(FILE, read_text(root, FILE))
    spec = Spec(
        source=file,
        kind="pip",
        python=requires_python(file, document),
        locked=text,
        own_package=is_package(root, project),
    )
    changed = _changed_since(file, text, requirements(project))
    if not changed:
        return spec, []
    message = f"this file was made before {FILE} was changed: {', '.join(changed)}"
    return spec, [Finding("warning", file, 0, 0, message, "run uv lock; the packages of this file are installed")]


def _changed_since(file: str, text: str, declared: list[str]) -> list[str]:
    """What the project requires and the lock file does not know of."""
    own = _OWN.search(text)
    if own is None or not declared:
        return []
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name

    start = max(0, text.rfind("[[package]]", 0, own.start()))
    block = text[start:].partition("\n[[package]]")[0].partition("\n[package.metadata]")[2]
    changed = []
    try:
        rows = parse_toml(file, block).get("requires-dist", [])
        if not isinstance(rows, list):
            return []
        locked = [(canonicalize_name(row["name"]), SpecifierSet(row.get("specifier", ""))) for row in rows]
        for line in declared:
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if not any(name == known and (requirement.url or requirement.specifier == it) for known, it in locked):
                changed.append(line)
    except (ConfigError, ValueError, KeyError, TypeError, AttributeError):
        return []  # uv says what is wrong with it
    return changed


def read_pylock(root: str, file: str) -> tuple[Spec, list[Finding]]:
    text = read_text(root, file)
    document = parse_toml(file, text.partition("\n[")[0])
    if str(document.get("lock-version", "")).partition(".")[0] != "1":
        raise ConfigError("this file has an unsupported version", where=file, hint="lock-version 1.0 is supported")
    return Spec(source=file, kind="pip", python=requires_python(file, document), locked=text), []
