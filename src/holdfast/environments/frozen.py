"""``uv.lock`` and ``pylock.toml``: already solved, so they are taken as they are."""

from __future__ import annotations

from holdfast.environments.files import exists, read_text
from holdfast.environments.pyproject import FILE, is_package, parse_toml, requires_python
from holdfast.environments.spec import Spec
from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import Finding


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
    return Spec(
        source=file,
        kind="pip",
        python=requires_python(file, document),
        locked=text,
        own_package=is_package(root, parse_toml(FILE, read_text(root, FILE))),
    ), []


def read_pylock(root: str, file: str) -> tuple[Spec, list[Finding]]:
    text = read_text(root, file)
    document = parse_toml(file, text.partition("\n[")[0])
    if str(document.get("lock-version", "")).partition(".")[0] != "1":
        raise ConfigError("this file has an unsupported version", where=file, hint="lock-version 1.0 is supported")
    return Spec(source=file, kind="pip", python=requires_python(file, document), locked=text), []
