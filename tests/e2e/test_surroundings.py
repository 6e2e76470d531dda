"""Odd surroundings of a command: closed streams, a deleted folder, limits of the machine, locales and terminals."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

COMMANDS = ("--version", "-h", "runs", "info", "logs", "history list -o csv", "submit -c local train.py")
UNPRIVILEGED = 20_000 + os.getpid() % 40_000  # limits on processes do not hold for root, and count those of a user


@pytest.fixture
def ran(desk: Desk) -> Desk:
    desk.script("print('said')")
    assert desk.submit("train.py").code == 0
    return desk


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_or_full_standard_output_is_an_error_without_traceback(ran: Desk, command: str) -> None:
    for redirection in (">&-", ">/dev/full"):
        result = shell(ran, f"{HOLDFAST} {command} {redirection}")
        assert result.returncode == 74, result
        assert "standard output cannot be written" in result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_standard_error_and_input_change_nothing(ran: Desk, command: str) -> None:
    for redirection in ("2>&-", "<&-", "<&- 2>&-"):
        result = shell(ran, f"{HOLDFAST} {command} {redirection}")
        assert result.returncode == 0, result
        assert result.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [("submit -c local a.py", 0), ("submit -c local --no-wait a.py", 0), ("status -r 99", None), ("submit b.py", 3)],
)
def test_full_standard_error_leaves_the_exit_code(desk: Desk, words: str, code: int | None) -> None:
    desk.script("print(1)", "a.py")
    desk.script("raise SystemExit(3)", "b.py")
    expected = desk.holdfast(*words.split()).code
    assert code in (None, expected)
    with open("/dev/full", "wb") as full:
        assert desk.holdfast(*words.split(), stderr=full).code == expected


def test_files_never_get_the_number_of_a_closed_stream(desk: Desk) -> None:
    """With all three closed, what is opened first would be written to as the output."""
    desk.script("open('outputs/x', 'w').write('1')")
    assert shell(desk, f"{HOLDFAST} submit -c local train.py <&- >&- 2>&-").returncode == 74
    assert shell(desk, f"{HOLDFAST} store verify").returncode == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--version", 0),
        ("-h", 0),
        ("submit -h", 0),
        ("du", 0),
        ("runs", 2),
        ("submit -c local train.py", 2),
        ("info", 2),
    ],
)
def test_deleted_current_folder(ran: Desk, tmp_path: Path, command: str, code: int) -> None:
    result = shell(ran, f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {HOLDFAST} {command}")
    assert result.returncode == code, result
    assert "Traceback" not in result.stderr
    assert code == 0 or "the current folder no longer exists" in result.stderr


LONG = "n" * 300


@pytest.mark.parametrize(
    "command",
    [
        f"kernel install -c local -n {LONG}",
        f"project create -n {LONG}",
        f"restore -r 1 --to {LONG}",
        f"export -r 1 --to {LONG}.zip",
    ],
)
def test_name_that_is_too_long_for_the_disk_is_named(ran: Desk, command: str) -> None:
    done = ran.holdfast(*command.split())
    assert done.code == 2, done.err
    assert "too long" in done.err or "at most 255" in done.err
    assert LONG[:80] in done.err


@pytest.mark.parametrize("home", ["", "relative", "/dev/null", "/nonexistent"])
def test_odd_home_is_an_error_that_names_the_variable_to_set(desk: Desk, home: str) -> None:
    result = desk.holdfast("runs", env={"HOME": home, "HOLDFAST_HOME": ""})
    assert result.code == 74, result
    assert "HOLDFAST_HOME" in result.err


@pytest.mark.parametrize(
    "variables",
    ["LC_ALL=C", "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0", "LC_ALL=xx_YY.none", "PYTHONIOENCODING=ascii"],
)
def test_names_outside_the_locale_are_shown_somehow(desk: Desk, variables: str) -> None:
    name = "zażółć"
    desk.script("import holdfast; holdfast.log('zażółć', 1); open('outputs/żółw', 'w').write('1')")
    assert desk.submit("train.py").code == 0
    assert desk.holdfast("history", "tag", name).code in (0, 2)
    commands = (
        "info -o table",
        "runs -o table",
        "runs",
        "history list -o csv",
        "history list -o yaml",
        "history compare -r 1 -r 1",
    )
    for command in (*commands, "history plot -r 1", "info", "status", "return --overwrite"):
        result = shell(desk, f"{variables} {HOLDFAST} {command}")
        assert result.returncode in (0, 2), result
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "variables", ["COLUMNS=1", "COLUMNS=0", "COLUMNS=x", "TERM=", "-u TERM", "TERM=none COLUMNS=2"]
)
def test_odd_terminals_show_something(ran: Desk, variables: str) -> None:
    for command in ("runs", "info", "-h", "submit -c local train.py"):
        inner = f"env {variables} {HOLDFAST} {command}"
        result = shell(ran, f"script -qec '{inner}' /dev/null </dev/null")
        assert result.returncode == 0, result
        assert "Traceback" not in result.stdout


def test_file_size_limit_is_named(desk: Desk) -> None:
    desk.script("import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('x', 'wb').write(bytes(9_000_000))")
    result = shell(desk, f"ulimit -f 4000; {HOLDFAST} submit -c local train.py")
    assert result.returncode == 128 + 25, result
    assert "file size limit exceeded, see ulimit -f" in result.stderr
    desk.script("import sys\nfor _ in range(60): sys.stdout.write('x' * 100_000)")
    result = shell(desk, f"ulimit -f 4000; {HOLDFAST} submit -c local train.py")
    assert result.returncode == 0, result
    assert "File too large (limit on file size: 2048000 bytes, see ulimit -f); the script continues" in result.stderr


def test_limit_on_processes_is_named_wherever_it_is_reached(desk: Desk, tmp_path: Path) -> None:
    """One process more in each round: the client, the runner, its guardian, its supervisor, then the script."""
    desk.script("print('ran')")
    subprocess.run(["chown", "-R", str(UNPRIVILEGED), tmp_path], check=True)
    rights = "+dac_override,+dac_read_search"
    drop = f"setpriv --reuid={UNPRIVILEGED} --clear-groups --inh-caps={rights} --ambient-caps={rights}"
    reasons = set()
    for most in range(1, 30):
        result = shell(desk, f"{drop} prlimit --nproc={most} {HOLDFAST} submit -c local train.py")
        assert "Traceback" not in result.stderr, result
        assert result.returncode in (0, 71, 125, 127), result
        if result.returncode == 0:
            break
        assert f"limit on processes: {most}, see ulimit -u" in result.stderr, result
        reasons.add(result.stderr.split("(limit")[0].splitlines()[-1])
    assert result.returncode == 0, result
    assert len(reasons) > 1


def test_limits_on_memory_and_files_are_no_bugs_of_ours(desk: Desk) -> None:
    desk.script("print('ran')")
    for limit in (*(f"-n {most}" for most in range(4, 16, 2)), "-v 40000", "-v 60000"):
        result = shell(desk, f"ulimit {limit}; exec {HOLDFAST} submit -c local train.py")
        assert result.returncode != 70, (limit, result)


@pytest.mark.parametrize(
    ("script", "limit", "told"),
    [
        ("open('big', 'wb').write(b'x' * 10_000_000)", "-f 4000", "limit on file size"),
        ("kept = [open('train.py') for _ in range(300)]", "-n 200", "limit on open files"),
        ('raise RuntimeError("can\'t start new thread")', "-c 0", "limit on processes"),
    ],
)
def test_script_that_python_ends_at_a_limit_is_told_its_name(desk: Desk, script: str, limit: str, told: str) -> None:
    desk.script(script)
    result = shell(desk, f"ulimit {limit}; {HOLDFAST} submit -c local train.py")
    assert result.returncode == 1
    assert told in result.stderr


def shell(desk: Desk, command: str) -> subprocess.CompletedProcess[str]:
    """In the project, with the desk's variables. ``ulimit -f`` counts blocks of 512 bytes in POSIX shells."""
    return subprocess.run(
        ["sh", "-c", command],
        cwd=desk.project,
        env={**desk.env, "TERM": os.environ.get("TERM", "xterm")},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
