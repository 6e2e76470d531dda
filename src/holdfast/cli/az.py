"""``az`` for old projects: runs ``az ml ...`` itself and passes everything else to the real Azure CLI."""

from __future__ import annotations

import os
import sys

from holdfast.cli.table.azure_groups import SHARED_GROUPS, WORKBENCH_GROUPS
from holdfast.engine.runs.path_shims import is_shim


def main() -> int:
    argv = sys.argv[1:]
    real = _real_az()
    if _is_ours(argv, real is not None):
        return _run(argv)
    if real is not None:
        os.execv(real, [real, *argv])
    from holdfast.cli.commands import azure_account
    from holdfast.cli.main import run

    if any(tuple(argv[: len(command.words)]) == command.words for command in azure_account.COMMANDS):
        return run(argv, azure_account.COMMANDS)
    command = " ".join(["az", *argv[:2]])
    known = f"az ml {', '.join((*WORKBENCH_GROUPS, *SHARED_GROUPS))}"
    sys.stderr.write(f"ERROR: {command}: the Azure CLI is not installed; Holdfast supports {known}\n")
    return 127


def _is_ours(argv: list[str], has_azure_cli: bool) -> bool:
    if argv[:1] != ["ml"]:
        return False
    if len(argv) == 1 or argv[1] in WORKBENCH_GROUPS or argv[1].startswith("-"):
        return True
    return argv[1] in SHARED_GROUPS and not (has_azure_cli and _has_ml_extension())


def _has_ml_extension() -> bool:
    """Whether an extension of Microsoft is installed that has commands of the shared groups."""
    config = os.environ.get("AZURE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".azure")
    extensions = os.environ.get("AZURE_EXTENSION_DIR") or os.path.join(config, "cliextensions")
    return any(os.path.isdir(os.path.join(extensions, name)) for name in ("ml", "azure-cli-ml"))


def _run(argv: list[str]) -> int:
    from holdfast.cli.conceal import conceal
    from holdfast.cli.main import run

    conceal(argv)
    return run(argv)


def _real_az() -> str | None:
    """The next az on the PATH that is not one of our shims."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "az.cmd" if os.name == "nt" else "az")
        if os.access(path, os.X_OK) and os.path.isfile(path) and not is_shim(path):
            return path
    return None


if __name__ == "__main__":
    sys.exit(main())
