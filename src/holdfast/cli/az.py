"""``az`` for old projects: runs ``az ml ...`` itself and passes everything else to the real Azure CLI."""

from __future__ import annotations

import os
import sys

from holdfast.engine.runs.path_shims import is_shim

# The groups of the Workbench. Every other word after ``az ml`` belongs to Microsoft's own machine learning extension.
_OURS = (
    *("experiment", "history", "computetarget", "computecontext", "runconfiguration", "runconfigurations"),
    *("project", "execute", "asset", "notebook"),
)
_NEEDLESS = ("login", "logout", "account")


def main() -> int:
    argv = sys.argv[1:]
    if argv[:1] == ["ml"] and (len(argv) == 1 or argv[1] in _OURS or argv[1].startswith("-")):
        from holdfast.cli.conceal import conceal
        from holdfast.cli.main import run

        conceal(argv)
        return run(argv)
    real = _real_az()
    if real is not None:
        os.execv(real, [real, *argv])
    if argv[:1] and argv[0] in _NEEDLESS:
        sys.stderr.write("nothing to do: Holdfast needs no account\n")
        return 0
    command = " ".join(["az", *argv[:2]])
    sys.stderr.write(f"ERROR: {command}: the Azure CLI is not installed; Holdfast supports az ml {', '.join(_OURS)}\n")
    return 127


def _real_az() -> str | None:
    """The next az on the PATH that is not one of our shims."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "az.cmd" if os.name == "nt" else "az")
        if os.access(path, os.X_OK) and os.path.isfile(path) and not is_shim(path):
            return path
    return None


if __name__ == "__main__":
    sys.exit(main())
