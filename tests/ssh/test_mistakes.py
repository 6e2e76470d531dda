"""The messages of docs/mistakes.md, each produced by making the mistake.

``HOLDFAST_REWRITE_GOLDEN=1`` writes what was printed into the page; read the diff.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from subprocess import STDOUT
from typing import TYPE_CHECKING

from conftest import Desk, Result, eventually
from disks.volume import Volume
from faults.stage import processes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ssh.conftest import Laptop
    from sshlab import Host, Lab

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mistakes.md"
BLOCK = re.compile(r"^```console\n\$ (?P<command>.*)\n(?P<printed>(?:.*\n)*?)```$", re.MULTILINE)
COMMANDS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def test_page_shows_what_is_printed(attached: Laptop, lab: Lab, gpu1: Host) -> None:
    """Several scenes share a laptop, a machine and a project; their order is that of the page."""
    _make_project(attached)
    scenes: dict[str, Callable[[], Result]] = {
        "holdfast submit slow.py        # then Ctrl-C": lambda: _interrupted(attached),
        "holdfast submit misspelled.py   # which imports helpr": lambda: attached.holdfast(
            "submit", "misspelled.py", stderr=STDOUT
        ),
        "holdfast submit --keep-limit 10KB save.py   # which writes 30 KB": lambda: attached.holdfast(
            "submit", "--keep-limit", "10KB", "save.py", stderr=STDOUT
        ),
        "holdfast submit train.py       # the disk of the store is full": lambda: _on_a_full_disk(attached),
        "holdfast attach ada@gpu1.lab   # which has no Python": lambda: _without_python(attached, gpu1),
        "holdfast submit -c lab1 train.py   # which is switched off": lambda: _at_a_dead_machine(attached, lab, gpu1),
    }
    printed = {}
    for command, _ in COMMANDS:
        result = scenes[command]() if command in scenes else attached.holdfast(*command.split()[1:], stderr=STDOUT)
        printed[command] = _as_on_the_page(result, attached)
    assert set(scenes) <= set(printed)
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(BLOCK.sub(lambda block: f"```console\n$ {block[1]}\n{printed[block[1]]}```", page), "utf-8")
        return
    assert printed == dict(COMMANDS)


def _make_project(laptop: Laptop) -> None:
    laptop.script("print('trained')")
    laptop.script("import nosuchpackage", "missing.py")
    laptop.script("import helpr", "misspelled.py")
    laptop.script("", "helper.py")
    laptop.script("import argparse\nargparse.ArgumentParser().parse_args()", "options.py")
    laptop.script("print(open('data/train.csv').read())", "read.py")
    laptop.script("print('started', flush=True)\nimport time\ntime.sleep(600)", "slow.py")
    laptop.script("open('last.ckpt', 'wb').write(b'w' * 30_000)", "save.py")
    laptop.script("1,2", "data/train.csv")
    laptop.script("data/", ".gitignore")
    (laptop.project.parent / "other.py").write_text("print(1)")


def _interrupted(laptop: Laptop) -> Result:
    with Desk.start(laptop, "submit", "slow.py", stderr=STDOUT) as process:
        assert process.stdout is not None
        out = b""
        while b"started" not in out:
            out += process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert laptop.holdfast("cancel").code == 0
    return Result(process.returncode, out + rest, "")


def _on_a_full_disk(laptop: Laptop) -> Result:
    volume = Volume(laptop, laptop.home, "4m")
    try:
        assert volume.holdfast("submit", "train.py").code == 0
        eventually(lambda: not processes_of(laptop.home))  # the guardian still removes files
        volume.fill(0)
        return volume.holdfast("submit", "train.py")
    finally:
        volume.leave()


def _without_python(laptop: Laptop, host: Host) -> Result:
    laptop.client.trust(host)
    host.only_python(None)
    try:
        return laptop.holdfast("attach", "ada@gpu1.lab", stderr=STDOUT)
    finally:
        host.reset()


def _at_a_dead_machine(laptop: Laptop, lab: Lab, host: Host) -> Result:
    laptop.close_connections()
    lab.cut(host, "unreachable")
    return laptop.holdfast("submit", "-c", "lab1", "train.py", stderr=STDOUT)


def _as_on_the_page(result: Result, laptop: Laptop) -> str:
    """With paths, names and times that are the same everywhere."""
    text = f"{(result.text + result.err).rstrip()}\n"
    for path, name in ((laptop.project, "/home/ada/digits"), (laptop.home, "/home/ada/.holdfast")):
        text = text.replace(str(path), name)
    text = re.sub(r"(?<=RunId: )\S+|\bproject_\d{13}", "digits_1794947190609", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", "0496cfe9404a36f71c55e0808b880cc7", text)
    text = re.sub(r"^environment: \S+", "environment: /usr/bin/python3", text, flags=re.MULTILINE)
    text = text.replace(f"not installed in {sys.executable}", "not installed in /usr/bin/python3")
    text = re.sub(r"\bin [\d.]+ s\b", "in 0.21 s", text)
    text = re.sub(r"^ *[\^~]+\n", "", text, flags=re.MULTILINE)  # Python 3.11 and newer
    return f"{text}[exit code {result.code}]\n"
