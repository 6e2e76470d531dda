"""Small programs that come first on PATH: ``az`` and ``holdfast``, and in shells ``python`` and ``pip``.

Real projects sweep with ``os.system('az ml experiment submit ...')``, so an ``az`` is part of what a script may expect.
They start Python isolated (-I): a module of the project can never stand in for one of ours.
"""

from __future__ import annotations

import os
import sys

from holdfast.record import Record
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.runner.store.files import UNSYNCED, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.home import Home

MARK = "made by Holdfast"


class Program(Record):
    """What a shim starts: a command line, and variables set for it."""

    words: tuple[str, ...]
    variables: dict[str, str]


def for_runs(home: Home, folder: str) -> None:
    """Fill the folder that scripts on this machine find first on their PATH."""
    _write(folder, _ours(home))


def for_shell(home: Home, project_id: str, python: str | None, *, managed: bool = False) -> str:
    """The same for a person's shell; with ``python``, its python and pip are that interpreter's.

    In a managed project nothing is installed by hand: there pip edits the file that declares the environment.
    """
    programs = _ours(home)
    if python is not None:
        for name in ("python", "python3"):
            programs[name] = Program((python,), {})
        programs["pip"] = programs["pip3"] = Program((python, "-m", "pip"), {})
    if managed:
        built = python if python and python.startswith(layout.environment(home.path, "")) else ""
        argv = (sys.executable, "-I", "-m", "holdfast.cli.pip", built)
        programs["pip"] = programs["pip3"] = Program(argv, {"HOLDFAST_HOME": home.path})
    return _write(home.shims(project_id), programs)


def is_shim(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return MARK in source.read(200)
    except OSError:
        return False


def _ours(home: Home) -> dict[str, Program]:
    variables = {"HOLDFAST_HOME": home.path}
    return {
        "az": Program((sys.executable, "-I", "-m", "holdfast.cli.az"), variables),
        "holdfast": Program((sys.executable, "-I", "-m", "holdfast"), variables),
    }


def _write(folder: str, programs: dict[str, Program]) -> str:
    os.makedirs(folder, 0o700, exist_ok=True)
    for name, program in programs.items():
        path = os.path.join(folder, f"{name}.cmd" if os.name == "nt" else name)
        text = _batch(program) if os.name == "nt" else _script(program)
        if _text(path) != text:
            write_whole(path, as_bytes(text), 0o700, UNSYNCED)
    return folder


def _script(program: Program) -> str:
    lines = ["#!/bin/sh", f"# {MARK}"]
    lines += [f"{name}={_quoted(value)}; export {name}" for name, value in program.variables.items()]
    return "\n".join([*lines, f'exec {" ".join(map(_quoted, program.words))} "$@"', ""])


def _batch(program: Program) -> str:
    lines = ["@echo off", f"rem {MARK}"]
    lines += [f'set "{name}={value}"' for name, value in program.variables.items()]
    return "\r\n".join([*lines, " ".join(f'"{word}"' for word in program.words) + " %*", ""])


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as source:
            return source.read()
    except OSError:
        return None
