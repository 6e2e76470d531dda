"""`holdfast ui`, `holdfast ui list` and `holdfast ui stop`."""

from __future__ import annotations

import os
import sys

from holdfast.errors import UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import is_tty, show
from holdfast.store.home import open_home
from holdfast.web import servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Parsed(Protocol):
        """The command line, as ``cli.parse`` has it."""

        def text(self, name: str) -> str | None: ...

        def flag(self, name: str) -> bool: ...

        def form(self) -> dict[str, Any]: ...


def ui(parsed: Parsed) -> int:
    _refuse_options(parsed)
    _require_packages()
    from holdfast.web.server import Options, serve

    port = parsed.text("port")
    return serve(
        open_home(),
        Options(
            folder=os.path.abspath(parsed.text("project") or os.getcwd()),
            port=int(port) if port else None,
            socket=parsed.flag("socket"),
            read_only=parsed.flag("read_only"),
            terminal=parsed.flag("terminal"),
            open_browser=not parsed.flag("no_open") and not parsed.flag("socket"),
        ),
    )


def list_servers(parsed: Parsed) -> int:
    rows = servers.running(open_home())
    if not rows and is_tty(sys.stdout) and not parsed.text("output"):
        sys.stderr.write("no web server of this store runs; start one: holdfast ui\n")
        return 0
    emit(rows, **parsed.form(), columns=("pid", "address", "read_only"))
    return 0


def stop(parsed: Parsed) -> int:
    text = parsed.text("pid")
    if text is not None and not text.isdecimal():
        raise UsageError(f"{text}: not a process id", hint="holdfast ui list shows the servers that run")
    for pid in servers.stop(open_home(), None if text is None else int(text)):
        sys.stderr.write(f"stopped {pid}\n")
    return 0


def _refuse_options(parsed: Parsed) -> None:
    port = parsed.text("port")
    if port is not None and not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--port {port}: not a port", hint="a number from 1 to 65535; 0 chooses a free one")
    if port is not None and parsed.flag("socket"):
        raise UsageError("use either --port or --socket, not both")
    if parsed.flag("terminal") and parsed.flag("read_only"):
        raise UsageError("use either --terminal or --read-only, not both")
    if parsed.flag("terminal") and sys.platform == "win32":
        raise UsageError("--terminal needs Unix terminals", hint="use holdfast shell")
    if parsed.flag("socket") and sys.platform == "win32":
        raise UsageError("--socket needs Unix sockets, which Python does not have on Windows")


def _require_packages() -> None:
    """The packages of the extra; at a terminal they are installed after one question."""
    try:
        import jinja2
        import starlette
        import uvicorn
    except ImportError as error:
        from holdfast.present.install_hint import install_hint

        hint = install_hint("ui")
        refusal = UsageError("the packages of the web workbench are not installed", answer=str(error), hint=hint)
        if not (is_tty(sys.stdin) and is_tty(sys.stderr)):
            raise refusal from error
        sys.stderr.write(
            f"the web workbench needs a few more packages (4 MB). Install them now?\n  {show(hint)}\n[Y/n] "
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            raise refusal from error
        import shlex
        import subprocess

        try:
            code = subprocess.run(shlex.split(hint), check=False).returncode
        except OSError as problem:
            raise refusal from problem
        if code:
            raise refusal from error
        import importlib

        importlib.invalidate_caches()
    else:
        del jinja2, starlette, uvicorn
