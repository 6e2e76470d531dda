"""A kernel that answers every cell with an error: how a notebook learns why the kernel of a target is not there."""

from __future__ import annotations

import os
from importlib import import_module

from holdfast.runner import untrusted
from holdfast.runner.decoding import readable
from holdfast.runner.store.files import UNSYNCED, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOTE = ".holdfast"
_LARGEST = 1 << 20


def leave_note(connection_file: str, message: str) -> None:
    """For the process by which Jupyter replaces this one."""
    if is_available():
        write_whole(connection_file + _NOTE, message.encode("utf-8", "replace"), sync=UNSYNCED)


def take_note(connection_file: str) -> str:
    """What the process before this one left, once; empty as a rule."""
    path = connection_file + _NOTE
    try:
        message = readable(untrusted.read_file(path, _LARGEST))
        os.unlink(path)
    except (OSError, ValueError):
        return ""
    return message


def is_available() -> bool:
    """Whether ipykernel is installed on this machine, beside Holdfast."""
    try:
        import_module("ipykernel.kernelapp")
    except ImportError:
        return False
    return True


def serve(connection_file: str, message: str) -> None:
    """Until Jupyter ends it."""
    base: Any = import_module("ipykernel.kernelbase").Kernel

    class ErrorKernel(base):  # type: ignore[misc]
        implementation, implementation_version, banner = "holdfast", "1", message
        language_info = {"name": "python", "mimetype": "text/x-python", "file_extension": ".py"}  # noqa: RUF012

        def do_execute(self, *_args: object, **_options: object) -> dict[str, object]:
            error = {"ename": "KernelError", "evalue": message, "traceback": message.splitlines()}
            self.send_response(self.iopub_socket, "error", error)
            return {"status": "error", "execution_count": self.execution_count, **error}

    app: Any = import_module("ipykernel.kernelapp").IPKernelApp
    app.launch_instance(argv=["-f", connection_file], kernel_class=ErrorKernel)
