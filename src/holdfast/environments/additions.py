"""Adding packages to the file that declares an environment; comments and everything else stay."""

from __future__ import annotations

import os

from holdfast.environments import requirement, sources
from holdfast.environments.edits import with_pip_items
from holdfast.environments.files import read_text
from holdfast.errors import ConfigError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import RunConfig

_FIRST = "requirements.txt"


def added(root: str, config: RunConfig, packages: Sequence[str]) -> tuple[str, str]:
    """The file (made new where nothing is declared yet) and its text with the packages in it."""
    for package in packages:
        try:
            requirement.parse(package)
        except requirement.NotARequirementError as error:
            raise UsageError(f"{package!r} is not a valid package name", answer=str(error)) from error
    declared = sources.find(root, config, "")
    if declared is None:
        return _FIRST, "".join(f"{package}\n" for package in packages)
    text = read_text(root, declared.file)
    if declared.kind == "conda":
        return declared.file, with_pip_items(text, packages)
    if declared.kind == "requirements":
        ended = text if not text or text.endswith("\n") else f"{text}\n"
        return declared.file, ended + "".join(f"{package}\n" for package in packages)
    hint = f"add it there, for example with: uv add {' '.join(packages)}"
    raise ConfigError(
        f"{declared.file} is maintained by another tool", where=os.path.join(root, declared.file), hint=hint
    )
