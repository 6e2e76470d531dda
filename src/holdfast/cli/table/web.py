"""Command table: the web workbench."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.options import PROJECT

_AT = "holdfast.web.command:"
WEB = (
    Command(
        ("ui",),
        "Open the history in a browser: a web server for this user on this machine.",
        _AT + "ui",
        (
            PROJECT,
            Option(("--port",), "port", "Port on the loopback. Default: the last one if it is free.", metavar="N"),
            Option(("--socket",), "socket", "Listen on a Unix socket for its owner only, not on a port.", kind="flag"),
            Option(("--read-only",), "read_only", "Refuse everything that changes or starts something.", kind="flag"),
            Option(("--no-open",), "no_open", "Print a sign-in code instead of opening a browser.", kind="flag"),
        ),
        examples=(
            ("On this machine", "holdfast ui"),
            ("On another machine, shown here by the ssh command that it prints", "holdfast ui --socket"),
        ),
        description="The server ends with this command; runs go on. See docs/web.md.",
    ),
    Command(("ui", "list"), "List the web servers of this store.", _AT + "list_servers"),
    Command(
        ("ui", "stop"),
        "Stop a web server of this store, or all of them.",
        _AT + "stop",
        (),
        (Positional("pid", "Process id of the server. Default: all.", "PID", required=False),),
    ),
)
