"""A program that runs unit tests: once to record what each test executes, or on mutants, one fork for each.

mutant_server.py record FILE    runs all tests; writes the tests of every line, and how long each test takes
mutant_server.py serve          answers one line of JSON on stdin with one on stdout
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # this folder is not where tests import from
    sys.path[0] = str(Path(__file__).parents[1])
import _pytest.config
import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TESTS = ("tests/unit", "tests/golden")
PLUGINS = ("pytest_timeout", "_hypothesis_pytestplugin")
PRELOADED = ("jmespath", "packaging.requirements", "ruamel.yaml", "unittest.mock", "hypothesis.strategies", *PLUGINS)
OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", *(part for name in PLUGINS for part in ("-p", name))),
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
)


def main(argv: Sequence[str]) -> int:
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if argv[0] == "record":
        return _record(Path(argv[1]))
    for name in (*PRELOADED, *(f"_pytest.{name}" for name in _pytest.config.default_plugins)):
        importlib.import_module(name)  # once, instead of in every fork
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        os.write(answers, json.dumps(_run(**json.loads(line))).encode() + b"\n")
    return 0


class _Recorder:
    """Notes the lines and the seconds of every test."""

    def __init__(self) -> None:
        import coverage

        self.coverage = coverage.Coverage(data_file=None, config_file=False, source=[str(SOURCE)])
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.coverage.switch_context(item.nodeid)
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - begin
            self.coverage.switch_context("")


def _record(path: Path) -> int:
    recorder = _Recorder()
    recorder.coverage.start()
    with tempfile.TemporaryDirectory() as temporary:
        pytest.main([*TESTS, *OPTIONS, "--basetemp", f"{temporary}/tests"], plugins=[recorder])
    recorder.coverage.stop()
    data = recorder.coverage.get_data()
    lines = {
        str(Path(file).relative_to(SOURCE / "holdfast")): {
            line: [test for test in tests if test and test not in recorder.failed]
            for line, tests in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    path.write_text(json.dumps({"lines": lines, "seconds": recorder.seconds}))
    # Recording makes tests slower, and a few have a time limit; those are not used.
    return int(len(recorder.failed) > len(recorder.seconds) / 100)


def _run(module: str, source: str, tests: list[str], limit: float) -> dict[str, Any]:
    """The exit code of pytest, ``None`` after the limit, and the end of its output."""
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                code = _test(module, source, tests, f"{temporary}/tests")
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        status = _wait(pid, limit)
        output.seek(0)
        return {"code": status, "output": output.read()[-3000:].decode(errors="replace")}


def _test(module: str, source: str, tests: list[str], temporary: str) -> int:
    sys.meta_path.insert(0, _MutantFinder(module, source))
    files = sorted({test.partition("::")[0] for test in tests})
    return int(pytest.main([*files, *OPTIONS, "-x", "--basetemp", temporary], plugins=[_Selection(tests)]))


class _Selection:
    """These tests in this order. A failing example is enough; hypothesis need not look for a smaller one."""

    def __init__(self, tests: list[str]) -> None:
        self._order = {test: number for number, test in enumerate(tests)}

    def pytest_collection(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", hypothesis.settings.get_profile("fixed"), phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


class _MutantFinder(importlib.abc.MetaPathFinder):
    """Imports one module from the text of its mutant, and every other one from its file."""

    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        file = SOURCE / (fullname.replace(".", "/") + ".py")
        return importlib.util.spec_from_file_location(fullname, file, loader=_MutantLoader(self._source, str(file)))


class _MutantLoader(importlib.abc.InspectLoader):
    def __init__(self, source: str, file: str) -> None:
        self._source, self._file = source, file

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self._file)


def _wait(pid: int, limit: float) -> int | None:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
