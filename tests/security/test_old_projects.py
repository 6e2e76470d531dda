"""Old projects that are hostile: reading their scripts neither fails nor takes long."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from holdfast.advice import script_source
from holdfast.environments.revival import script_imports

if TYPE_CHECKING:
    from conftest import Desk

SCRIPTS = {
    "deep sum": f"if {'+'.join(['a'] * 2500)} == __name__:\n    pass\n",
    "deep attribute": f"if a{'.b' * 2500}:\n    pass\n",
    "lambdas": f"x = {'lambda: ' * 800}1\n",
    "parentheses": "(" * 150 + ")" * 150,
    "NUL": "import a\0b\n",
    "unknown encoding": "# -*- coding: bogus -*-\nimport sklearn.externals\n",
}


def test_scripts_of_odd_structure_are_reported(desk: Desk) -> None:
    for number, text in enumerate(SCRIPTS.values()):
        desk.script(text, f"script{number}.py")
    for command in (("revive", "."), ("check",), ("check", "--fix")):
        done = desk.holdfast(*command)
        assert done.code in (0, 65), (command, done)
        assert "Traceback" not in done.err


@pytest.mark.parametrize("text", [f"a{'.b' * 900}().models()\n", f"{'f(' * 80}{')' * 80}.models.x()\n"])
def test_deep_calls_in_a_script_are_no_model_for_the_gpu_advice(text: str) -> None:
    scripts = {"train.py": text, "more.py": "import torch\n"}
    assert script_source.unmoved_model(scripts) == script_source.Place("more.py", "")


def test_run_configuration_of_a_megabyte_of_yaml_is_refused_at_once(desk: Desk) -> None:
    """Each check begins with the run configurations."""
    desk.script("**/" * 300_000 + "a\n", "aml_config/x.runconfig")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert b"more than 128 KiB" in desk.holdfast("check").out
    assert desk.holdfast("revive", ".").code == 65
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 4


def test_check_of_many_large_scripts_takes_seconds(desk: Desk) -> None:
    dense = f"import a.b\n{'a.b.c;' * 8}\n"
    for number in range(40):
        desk.script(dense * 3500, f"m{number:02}.py")
    names = list(script_imports.scripts(str(desk.project)))
    assert 1 <= len(names) < 10
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert desk.holdfast("check").code == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 10
