"""Long output at a terminal goes through a pager, as git's does."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import termios
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import Desk

MARKING = "sed s/^/paged:/"
LINES = 200
TITLE = "\\x1b]2;owned\\x07"  # in the script's source: sets the title of the window, and must not reach a terminal
PROMPT = b"\n:\x1b[K"  # of less
SETSID = shutil.which("setsid") or "setsid"


class Shown(NamedTuple):
    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk(tmp_path_factory.mktemp("pager"))
    desk.script(f"for number in range({LINES}): print('{TITLE}line', number)")
    assert desk.submit("train.py").code == 0
    return desk


@pytest.mark.parametrize(
    "argv", [("logs",), ("-h",), ("submit", "-h"), ("history", "info", "-o", "json")], ids=" ".join
)
def test_long_output_goes_through_the_pager(desk: Desk, argv: tuple[str, ...]) -> None:
    shown = at_terminal(desk, *argv, PAGER=MARKING)
    assert shown.code == 0
    assert len(shown.lines) > 23
    assert [line for line in shown.lines if not line.startswith("paged:")] == []
    assert [line.removeprefix("paged:") for line in shown.lines] == at_terminal(desk, *argv, PAGER="cat").lines


def test_long_lists_and_diffs_go_through_the_pager(desk: Desk) -> None:
    (desk.project / "train.py").write_text("print('changed')\n" * LINES)
    assert "paged:" in at_terminal(desk, "diff", PAGER=MARKING).text
    shown = at_terminal(desk, "runs", "-o", "json", PAGER=MARKING)
    assert "paged:" in shown.text
    assert '"run_number": 1' in shown.text


@pytest.mark.parametrize("argv", [("runs",), ("history", "-h"), ("logs", "--tail", "5")], ids=" ".join)
def test_output_that_fits_on_the_screen_starts_no_pager(desk: Desk, argv: tuple[str, ...]) -> None:
    shown = at_terminal(desk, *argv, PAGER=MARKING)
    assert (shown.code, "paged:" in shown.text) == (0, False)
    assert shown.text.strip()


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        (("logs", "--no-pager"), {"PAGER": MARKING}),
        (("--no-pager", "logs"), {"PAGER": MARKING}),
        (("logs", "-f"), {"PAGER": MARKING}),
        (("logs",), {"PAGER": MARKING, "HOLDFAST_PAGER": ""}),
        (("logs",), {"PAGER": MARKING, "HOLDFAST_PAGER": "cat"}),
        (("logs",), {"PAGER": MARKING, "TERM": "dumb"}),
    ],
)
def test_pager_is_not_used(desk: Desk, argv: tuple[str, ...], env: dict[str, str]) -> None:
    shown = at_terminal(desk, *argv, env=env)
    assert shown.code == 0
    assert "paged:" not in shown.text
    assert f"line {LINES - 1}" in shown.text


def test_pager_gets_what_a_terminal_may_be_sent(desk: Desk) -> None:
    shown = at_terminal(desk, "logs", "-r", "1", PAGER=MARKING)
    assert shown.lines == [f"paged:line {number}" for number in range(LINES)]


def test_own_variable_wins_over_that_of_all_programs(desk: Desk) -> None:
    shown = at_terminal(desk, "logs", PAGER="sed s/^/other:/", HOLDFAST_PAGER=MARKING)
    assert shown.lines[0] == "paged:line 0"


def test_nothing_is_paged_or_imported_for_it_in_a_pipe(desk: Desk) -> None:
    env = {**desk.env, "PAGER": MARKING, "TERM": "xterm"}
    command = [str(Path(desk.command).with_name("python")), "-X", "importtime", "-m", "holdfast", "logs"]
    done = subprocess.run(command, cwd=desk.project, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "\x1b]2;owned\x07line 0"
    assert "holdfast.store.index" in done.stderr
    assert "holdfast.cli.pager" not in done.stderr


@pytest.mark.parametrize("pager", ["head -n 3", "head -n 3 >&2; exit 0", "true"])
def test_leaving_the_pager_early_is_no_error(desk: Desk, pager: str) -> None:
    desk.script("for number in range(300_000): print('line', number)", "long.py")
    if desk.record()["script_name"] != "long.py":
        assert desk.submit("long.py").code == 0
    shown = at_terminal(desk, "logs", PAGER=pager)
    assert shown.code == 0
    assert shown.lines == ([] if pager == "true" else ["line 0", "line 1", "line 2"])


@pytest.mark.parametrize("pager", ["no-such-pager", "false", "/etc/passwd"])
def test_broken_pager_is_replaced_by_plain_output(desk: Desk, pager: str) -> None:
    shown = at_terminal(desk, "logs", "-r", "1", PAGER=pager)
    assert shown.code == 0
    assert [line for line in shown.lines if line.startswith("line ")] == [f"line {number}" for number in range(LINES)]


def test_less_is_the_default_with_the_options_of_git(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "less").write_text('#!/bin/sh\necho "LESS=$LESS"\ncat > /dev/null\n')
    (tmp_path / "less").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{desk.env['PATH']}"}
    assert at_terminal(desk, "logs", "-r", "1", unset="PAGER", env=env).lines == ["LESS=FRX"]
    assert at_terminal(desk, "logs", "-r", "1", unset="PAGER", LESS="S", env=env).lines == ["LESS=S"]


def test_output_is_plain_where_there_is_no_less(desk: Desk, tmp_path: Path) -> None:
    shown = at_terminal(desk, "logs", "-r", "1", unset="PAGER", PATH=str(tmp_path))
    assert (shown.code, shown.lines[0], shown.lines[-1]) == (0, "line 0", f"line {LINES - 1}")


@pytest.mark.parametrize("keys", [((PROMPT, b"q"),), ((PROMPT, b"\x03"), (b"\x07", b"q"))], ids=["q", "Ctrl-C q"])
def test_real_less_shows_a_screen_and_ends_with_q(desk: Desk, keys: tuple[tuple[bytes, bytes], ...]) -> None:
    shown = at_terminal(desk, "logs", "-r", "1", keys=keys, unset="PAGER")
    assert shown.code == 0
    assert "line 22" in shown.text
    assert "line 60" not in shown.text
    assert "Traceback" not in shown.text


def test_exit_code_and_error_of_a_paged_command_are_kept(desk: Desk) -> None:
    shown = at_terminal(desk, "info", "999", PAGER=MARKING)
    assert (shown.code, shown.lines[0]) == (2, "ERROR: this project has no run 999")


def at_terminal(
    desk: Desk,
    *argv: str,
    keys: tuple[tuple[bytes, bytes], ...] = (),
    unset: str = "",
    env: dict[str, str] | None = None,
    **more: str,
) -> Shown:
    """Run a command at a terminal of 24 lines; each key is typed after the text beside it.

    The last one is typed again at every later prompt: an interrupted less may drop a key while it draws the screen.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    given = {"TERM": "xterm", **desk.env, **(env or {}), **more}
    given.pop(unset, None)
    text = b""
    last = keys[-1][1] if keys else b""
    with subprocess.Popen(
        [SETSID, "--ctty", "--wait", desk.command, *argv],
        cwd=desk.project,
        env=given,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        try:
            while block := os.read(ours, 65536):
                text += block
                if last and not keys and PROMPT in block:
                    os.write(ours, last)
                while keys and keys[0][0] in text:
                    os.write(ours, keys[0][1])
                    keys = keys[1:]
        except OSError:  # the command has ended
            pass
        finally:
            os.close(ours)  # what still runs there gets SIGHUP
    return Shown(process.returncode, text.decode())
