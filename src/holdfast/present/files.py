"""Files that a person asked for by name."""

from __future__ import annotations

import os

from holdfast.errors import UsageError
from holdfast.runner import untrusted
from holdfast.runner.store.files import temporary_beside


def write_file(path: str, data: bytes) -> None:
    """Beside, then by rename: a picture that somebody is looking at is never half there."""
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
