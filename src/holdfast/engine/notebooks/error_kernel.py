"""A kernel that answers every cell with an error: how a notebook learns why the kernel of a target is not there."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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

        def do_execute(self, _code: str, *_args: object, **_options: object) -> dict[str, object]:
            error = {"ename": "KernelError", "evalue": message, "traceback": message.splitlines()}
            self.send_response(self.iopub_socket, "error", error)
            return {"status": "error", "execution_count": self.execution_count, **error}

    app: Any = import_module("ipykernel.kernelapp").IPKernelApp
    app.launch_instance(argv=["-f", connection_file], kernel_class=ErrorKernel)
