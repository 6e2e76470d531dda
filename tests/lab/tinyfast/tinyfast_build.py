"""Builds tinyfast with the compiler, and with nothing that would have to be downloaded first."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

INFO = "tinyfast-1.0.dist-info"


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    name = "tinyfast-1.0-py3-none-linux_x86_64.whl"
    texts = {
        "tinyfast.py": Path("tinyfast.py").read_bytes(),
        "libtinyfast.so": _compiled().read_bytes(),
        f"{INFO}/METADATA": Path("PKG-INFO").read_bytes(),
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
    }
    texts[f"{INFO}/RECORD"] = "".join(f"{path},,\n" for path in (*texts, f"{INFO}/RECORD")).encode()
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        for path, text in texts.items():
            wheel.writestr(path, text)
    return name


def _compiled() -> Path:
    compiler = os.environ.get("CC", "cc")
    library = Path("libtinyfast.so")
    try:
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, "tinyfast.c"], check=True)
    except FileNotFoundError:
        sys.exit(f"error: command '{compiler}' failed: No such file or directory")
    return library
