"""What every runtime must do: put script and arguments into a command line, unchanged and last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.ports import PYTHON, RuntimeParts
from holdfast.runtimes.container import ContainerRuntime
from holdfast.runtimes.python import PythonRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import Runtime


RUNTIMES: list[Callable[[RuntimeParts], Runtime]] = [PythonRuntime, ContainerRuntime]
ARGUMENTS = ("", " ", "it's", "$(id)", "a\nb", "--", "-rf", "caf\udce9", "é", "x" * 100_000)


@pytest.fixture(params=RUNTIMES, ids=lambda made: made.__name__)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    made: Runtime = request.param(RuntimeParts("/opt/python"))
    return made


@pytest.mark.parametrize("script", ["train.py", "a b/it's.py", "caf\udce9.py", "-c.py"])
def test_script_and_arguments_come_last_and_unchanged(runtime: Runtime, script: str) -> None:
    argv = runtime.argv(script, ARGUMENTS)
    assert argv[-len(ARGUMENTS) :] == ARGUMENTS
    assert argv[-len(ARGUMENTS) - 1].endswith(script)
    assert not argv[-len(ARGUMENTS) - 1].startswith("-")


def test_the_same_question_has_the_same_answer(runtime: Runtime) -> None:
    assert runtime.argv("train.py", ("1",)) == runtime.argv("train.py", ("1",))
    assert all(isinstance(word, str) for word in runtime.argv("train.py", ()))


@pytest.mark.parametrize("command", [(PYTHON, "-m", "pkg.train"), ("torchrun",), ("./bin/program",)])
def test_words_of_a_command_come_last_and_unchanged_but_for_the_interpreter(
    runtime: Runtime, command: tuple[str, ...]
) -> None:
    argv = runtime.command((*command, *ARGUMENTS))
    expected = ("/opt/python", *command[1:]) if command[0] == PYTHON else command
    assert argv[-len(expected) - len(ARGUMENTS) :] == (*expected, *ARGUMENTS)
    assert PYTHON not in argv
