"""Writes files that the user named."""

from __future__ import annotations

import os

from holdfast.errors import UsageError
from holdfast.runner import untrusted
from holdfast.runner.store.files import temporary_beside


def write_file(path: str, data: bytes) -> None:
    """Written beside and renamed, so that a viewer never sees half a picture."""
    beside = temporary_beside(path)
    try:
        with open(untrusted.create_file(beside, 0o666), "wb") as target:
            target.write(data)
        os.replace(beside, path)
    except OSError as error:
        raise UsageError("the file cannot be written", where=path, answer=str(error.strerror)) from error
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
