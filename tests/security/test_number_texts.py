"""Digits that ``int`` refuses, where a number is expected: a message, never a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast
from conftest import Desk
from holdfast.amlconfig.types import split_address
from holdfast.environments.versions import allows, release
from holdfast.runner import untrusted

LONG = "9" * 5000
OF_BYTES = {
    "untrusted.py",
    "limits.py",
    "files.py",
    "timeseries.py",
    "checkpoints.py",
    "run_numbers.py",
    "executor_python.py",
}  # or text of the kernel
OF_BYTES |= {"results.py"}  # the version of an installed package
PACKAGE = Path(holdfast.__file__).parent


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("042", 42), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_a_number(text: str, number: int) -> None:
    assert untrusted.whole_number(text) == number


@pytest.mark.parametrize("text", ["", "²", "1²", "٣", LONG, "-1", "1_0", " 1", "\ud800"])
def test_other_text_is_none(text: str) -> None:
    assert untrusted.whole_number(text) is None


@pytest.mark.parametrize("port", ["²", LONG])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_address_with_an_unreadable_port_is_left_whole(host: str, port: str) -> None:
    assert split_address(f"{host}:{port}", None) == (f"{host}:{port}", None)


def test_version_of_many_digits_forbids_nothing() -> None:
    assert allows(f">=3.{LONG}", "3.11")
    assert release(f"3.{LONG}")[:1] == (3,)


def test_commands_and_files_with_such_numbers_are_refused_with_a_message(desk: Desk) -> None:
    desk.script("print(1)")
    desk.submit("train.py")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "q.compute").write_text("type: remote\naddress: 127.0.0.1:²\nusername: a\n")
    for words in (
        ("submit", "-c", "q", "--dry-run", "train.py"),
        ("logs", "-n", "²", "-r", "1"),
        ("logs", "-n", LONG, "-r", "1"),
        ("logs", "--attempt", "²", "-r", "1"),
        ("env", "prune", "--dry-run", "--keep", "²"),
        ("store", "prune", "--dry-run", "--keep-days", LONG),
        ("attach", "a@127.0.0.1", "--port", "²"),
        ("info", "-r", "²"),
    ):
        done = desk.holdfast(*words)
        assert 0 < done.code < 70 or done.code > 70, (words[:3], done.code, done.err[:300])


def test_no_module_asks_isdigit_of_text_before_it_takes_the_number() -> None:
    """Bytes have ASCII digits only, and so has what the kernel says about processes and itself."""
    pattern = re.compile(r"\bint\((\w+)(?:\[[^]]*\])?\).*\b\1(?:\[[^]]*\])?\.(?:isdigit|isdecimal)\(\)")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if pattern.search(line) and "isascii()" not in line and "/proc" not in line and path.name not in OF_BYTES
    ]
    assert found == []
