"""Which names a cell of ``%%submit`` takes from its notebook."""

from __future__ import annotations

import pytest

from holdfast.api.cell_sending import used_names

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
