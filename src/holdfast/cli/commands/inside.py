"""Commands on the machine of a run: ``holdfast exec``, ``holdfast ssh``, ``holdfast forward``."""

from __future__ import annotations

import os
import stat
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose
from holdfast.cli.show import LogWriter
from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.runs.run_target import target_of
from holdfast.errors import UsageError
from holdfast.present.terminal import show
from holdfast.store import runs
from holdfast.store.home import open_home
from holdfast.store.index.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.engine.runs.port_forward import Lane
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Target


def execute(parsed: Parsed) -> int:
    from holdfast.engine.runs import exec_command as engine

    home, run = _run(parsed)
    writers = {1: LogWriter(sys.stdout), 2: LogWriter(sys.stderr)}
    channel = connect(home, target_of(run.request, home.path), ASKING)
    try:
        return engine.execute(
            channel, run, parsed.rest, 0 if _is_fed() else None, lambda stream, block: writers[stream].write(block)
        )
    finally:
        channel.close()


def ssh(parsed: Parsed) -> int:
    from holdfast.engine.runs.shell import words

    target, run = _place(parsed)
    argv = words(target, run)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        import subprocess

        return subprocess.call(argv)
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError as error:
        hint = "install OpenSSH's client: apt-get install openssh-client"
        raise UsageError(f"{argv[0]} is not installed on this machine", hint=hint) from error


def forward(parsed: Parsed) -> int:
    """Until Ctrl-C, which is how it is meant to end."""
    from holdfast.engine.runs import port_forward as engine

    wanted = [_ports(word) for word in parsed.texts("ports")]
    home, run = _run(parsed)
    target = target_of(run.request, home.path)
    if not target.kind.is_remote:
        for there, _ in wanted:
            sys.stdout.write(f"http://127.0.0.1:{there}/\n")
        sys.stderr.write("the run is on this machine; its ports need no forwarding\n")
        return 0
    channel = connect(home, target, ASKING)
    try:
        channel.hello()
    finally:
        channel.close()
    try:
        lanes = [engine.open_lane(there, here) for there, here in wanted]
        _announce(target.name, [here for _, here in wanted], lanes)
        engine.serve(target.host, lanes, lambda message: _tell(target.name, message))
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    return 0


def _run(parsed: Parsed) -> tuple[Home, Run]:
    """The run as it was last seen: where it is does not change."""
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    index = Index(home)
    try:
        return home, runs.read(home, index.find(project.id, parsed.text("run") or "last"))
    finally:
        index.close()


def _place(parsed: Parsed) -> tuple[Target, Run | None]:
    name = parsed.text("config")
    if name is None:
        home, run = _run(parsed)
        return target_of(run.request, home.path), run
    if parsed.text("run") is not None:
        raise UsageError("use either -r or -c, not both")
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    chosen = choose(home.path, project.root, name)
    return target_lookup.resolve(chosen.compute, home.path), None


def _is_fed() -> bool:
    """Whether stdin is a pipe or a file, not a terminal and not closed."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _ports(word: str) -> tuple[int, int]:
    there, colon, here = word.partition(":")
    numbers = [int(digits) if digits.isdecimal() and digits.isascii() else -1 for digits in (there, here or there)]
    if not 0 < numbers[0] < 65536 or not 0 <= numbers[1] < 65536 or (colon and not here):
        raise UsageError(f"{word!r} is not PORT or PORT:LOCAL", hint="for example 6006, or 6006:8080")
    return numbers[0], numbers[1]


def _announce(name: str, wanted: list[int], lanes: list[Lane]) -> None:
    for here, lane in zip(wanted, lanes, strict=True):
        if here not in (0, lane.here):
            sys.stderr.write(f"port {here} is in use here; using {lane.here} instead\n")
        sys.stdout.write(f"http://127.0.0.1:{lane.here}/\n")
    sys.stderr.write(f"port {', '.join(str(lane.there) for lane in lanes)} of {show(name)}, until Ctrl-C\n")
    sys.stdout.flush()


def _tell(name: str, message: str) -> None:
    sys.stderr.write(f"{show(f'{name}: {message}')}\n")
    sys.stderr.flush()
