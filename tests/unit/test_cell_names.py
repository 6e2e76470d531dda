"""Which names a cell of ``%%submit`` takes from its notebook."""

from __future__ import annotations

import pytest

from holdfast.api.cell_sending import files, used_names
from holdfast.errors import UsageError

CASES = {
    "x = x + 1": {"x"},
    "x += 1": {"x"},
    "x = 1\nx += 1": set(),
    "a, b = b, a": {"a", "b"},
    "df = df.dropna()\ndf": {"df"},
    "d['k'] = v": {"d", "v"},
    "o.a += 1": {"o"},
    "a: int = a": {"a"},
    "a: int\na = 1\na": set(),
    "(n := m)\nn": {"m"},
    "list = list(x)": {"list", "x"},
    "for i in range(3):\n    print(i)\nprint(i)": set(),
    "[i for i in y]\ni = 0": {"y"},
    "i = 0\n[i for k in y]": {"y"},
    "import a.b\na.c": set(),
    "with open('f') as g:\n    g.read()": set(),
    "try:\n    1\nexcept E as e:\n    print(e)": {"E"},
    "match v:\n    case [p, *q]:\n        print(p, q)\n    case r:\n        print(r)": {"v"},
    "def f():\n    return z\nz = 1\nf()": set(),
    "def f(n=n0):\n    pass": {"n0"},
    "@decorator\ndef f(a=b):\n    pass": {"decorator", "b"},
    "class A:\n    y = w": {"w"},
    "x = lambda: x": set(),
    "lambda t: t + h": {"h"},
    "if c:\n    k = 1\nk": {"c"},
}


@pytest.mark.parametrize(("source", "names"), CASES.items())
def test_names_that_a_cell_reads_before_it_assigns_them_are_of_the_notebook(source: str, names: set[str]) -> None:
    assert used_names(source) == names


SET = {
    "y = 1": "y",
    "def y():\n    pass": "y",
    "import y": "y",
    "for y in []:\n    pass": "y",
    "def f():\n    global y\n    y = 1\nf()": "y",
    "from os.path import *": "y",
    "exec('y = 1')": "y",
    "globals()['y'] = 1": "y",
    "a, (b, *y) = c": "y",
}


@pytest.mark.parametrize(("source", "name"), SET.items())
def test_variable_that_the_cell_may_set_can_come_back(source: str, name: str) -> None:
    assert ".holdfast-call/call.json" in files(source, {}, [], [name], ".")


@pytest.mark.parametrize("name", ["import", "a.b", "1a", "a b", "None", "typo", "f_local"])
def test_variable_that_the_cell_cannot_set_is_refused_before_a_run(name: str) -> None:
    with pytest.raises(UsageError, match="--get: "):
        files("y = 1\ndef f():\n    f_local = 1", {}, [], ["y", name], ".")


def test_variable_that_was_sent_can_come_back() -> None:
    assert files("y.append(1)", {"y": []}, ["y"], ["y"], ".")
