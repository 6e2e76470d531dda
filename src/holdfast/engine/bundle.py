"""Our runner as one parcel: what it is made of, its content hash, and the zip that travels when a target lacks it."""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Bundle(NamedTuple):
    digest: str
    files: dict[str, bytes]

    def to_zip(self) -> bytes:
        import io
        import zipfile

        parcel = io.BytesIO()
        with zipfile.ZipFile(parcel, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name in sorted(self.files):
                bundle.writestr(zipfile.ZipInfo(name), self.files[name])
        return parcel.getvalue()


def runner_bundle() -> Bundle:
    files = {
        f"runner/{name}": _read("runner", name) for name in os.listdir(f"{_PACKAGE}/runner") if name.endswith(".py")
    }
    del files["runner/boot.py"]
    files["site/holdfast.py"] = _read("track.py")
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    return Bundle(digest.hexdigest(), files)


def boot_source() -> str:
    return _read("runner", "boot.py").decode("ascii")


def _read(*names: str) -> bytes:
    with open(os.path.join(_PACKAGE, *names), "rb") as source:
        return source.read()
