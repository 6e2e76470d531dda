"""``holdfast diagnostics``: a report for bug reports, shown before it is written."""

from __future__ import annotations

import io
import os
import sys

from holdfast import project as projects
from holdfast.cli import pick
from holdfast.errors import UsageError
from holdfast.present.terminal import human_bytes, is_tty, show
from holdfast.runner.store.files import WholeFile
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed


def write(parsed: Parsed) -> int:
    from holdfast.engine.transfer.diagnostics import gather

    path = os.path.abspath(parsed.text("to") or "diagnostics.zip")
    if os.path.lexists(path):
        raise UsageError("this file already exists; nothing was written", where=path, hint="use --to for another file")
    home, run = open_home(), None
    if parsed.text("run") is not None:
        home, run = pick.run(parsed)
    elif parsed.flag("with_log"):
        raise UsageError("--with-log needs a run", hint="holdfast diagnostics -r last --with-log")
    project = projects.find(parsed.text("project") or os.getcwd())
    files = gather(home, project, run, with_log=parsed.flag("with_log"))
    _show(files, run is not None and parsed.flag("with_log"))
    _confirm(parsed)
    _write(path, files)
    sys.stdout.write(f"{show(path)}\n")
    return 0


def _show(files: dict[str, bytes], with_log: bool) -> None:
    for name, data in files.items():
        sys.stderr.write(f"{human_bytes(len(data)):>10}  {show(name)}\n")
    log = "the log of the script with apparent secrets removed" if with_log else "no log of the script"
    sys.stderr.write(f"Values of variables, settings and arguments are left out; {log}, no code, no outputs.\n")
    sys.stderr.flush()


def _confirm(parsed: Parsed) -> None:
    if parsed.flag("yes"):
        return
    if is_tty(sys.stdin):
        sys.stderr.write("Write the report? Review it before you send it. [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError("nothing was written", hint="say --yes")


def _write(path: str, files: dict[str, bytes]) -> None:
    import zipfile

    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    with WholeFile(path, new=True) as sink:
        sink.write(target.getvalue())
