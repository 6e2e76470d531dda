"""Whether the sources of a script import a framework that uses GPUs."""

from __future__ import annotations

import pytest

from holdfast.advice.gpu_frameworks import imported


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("import torch\n", "torch"),
        ("def f():\n    from torch.nn import Linear\n", "torch"),
        ("import os, sys, jax  # fast\n", "jax"),
        ("import tensorflow as tf\n", "tensorflow"),
        ("# import torch\nprint('import torch')\nimport torchless\n", ""),
        ("import json\n", ""),
    ],
)
def test_import_in_the_script(text: str, module: str) -> None:
    assert imported({"train.py": text}, "train.py") == (("train.py", module) if module else None)


def test_only_modules_that_the_script_reaches_count() -> None:
    files = {
        "src/train.py": "from helpers import data\nimport models.net\n",
        "src/helpers/__init__.py": "",
        "src/helpers/data.py": "import csv\n",
        "src/models/net.py": "from . import layers\n",
        "src/models/layers.py": "from ..helpers import data\nimport cupy\n",
        "other.py": "import torch\n",
    }
    assert imported(files, "src/train.py") == ("src/models/layers.py", "cupy")
    assert imported({**files, "src/models/layers.py": ""}, "src/train.py") is None
    assert imported({"a.py": "import b", "b.py": "import a"}, "a.py") is None
