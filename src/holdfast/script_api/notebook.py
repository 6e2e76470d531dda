"""Executes a notebook in the run's environment: ``python -m holdfast_notebook NOTEBOOK [ARGUMENTS]``.

Cells are executed in order by nbclient in a kernel of this interpreter. Their output goes to the log as it comes, and
the executed copy to the folder of outputs after each cell. A cell that fails ends the run.
"""

import importlib
import os
import re
import signal
import sys
import tempfile

MYPY = False
if MYPY:
    from typing import Any, Dict, List, NoReturn

_files = importlib.import_module(
    "holdfast.script_api.replace" if __name__.startswith("holdfast.") else "_holdfast_replace"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LONGEST_FOLDER = 90  # bytes before the name of a socket, of which the system takes 107 in all
_STARTUP_S = 600  # on a busy machine, with packages on a network; a kernel that ends is noticed at once
_PYTHON_KERNEL = "python3"


def main() -> "int":
    path, arguments = sys.argv[1], sys.argv[2:]
    # The kernel of this environment comes before one of the same name in the user's home.
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as runtime:
        os.environ["JUPYTER_RUNTIME_DIR"] = runtime  # its connection file, which no other user may read
        try:
            import ipykernel  # type: ignore[import-not-found,unused-ignore] # noqa: F401
            import nbclient  # type: ignore[import-not-found,unused-ignore] # noqa: F401
        except ImportError as error:
            details = (sys.executable, type(error).__name__, error)
            sys.stderr.write(
                "notebooks need nbclient and ipykernel in the environment of the run, %s\n%s: %s\n" % details
            )
            return 1
        return execute(path, arguments)


def execute(path: "str", arguments: "List[str]") -> "int":
    """Returns the exit code."""
    import nbformat  # type: ignore[import-not-found,unused-ignore]
    from nbclient.exceptions import CellExecutionError, DeadKernelError  # type: ignore[import-not-found,unused-ignore]

    try:
        notebook = nbformat.read(path, as_version=4)
        kernel = _kernel(notebook.metadata)
    except Exception as error:  # of many types, with a traceback that says nothing about the notebook
        sys.stderr.write("%s is not a valid notebook: %s: %s\n" % (path, type(error).__name__, error))
        return 1
    missing = _missing_kernel(path, kernel)
    if missing:
        sys.stderr.write(missing)
        return 1
    copy = os.path.join(os.environ.get("HOLDFAST_OUTPUTS", "outputs"), os.path.basename(path))
    client = _client(notebook, os.path.dirname(os.path.abspath(path)), kernel)
    signal.signal(signal.SIGTERM, _stop)
    try:
        with client.setup_kernel():
            if client.kernel_name == _PYTHON_KERNEL:
                _set_arguments(client, [path, *arguments])
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
                _keep(notebook, copy)
    except CellExecutionError:
        sys.stderr.write("%s: cell %d failed\n" % (path, index + 1))
        return 1
    except DeadKernelError:
        sys.stderr.write("%s: the kernel ended in cell %d\n" % (path, index + 1))
        return 1
    finally:
        _keep(notebook, copy)
    return 0


def _missing_kernel(path: "str", kernel: "str") -> "str":
    """What to say where the notebook's kernel is not installed."""
    from jupyter_client.kernelspec import KernelSpecManager  # type: ignore[import-not-found,unused-ignore]

    names = sorted(KernelSpecManager().find_kernel_specs())
    if str(kernel).lower() in names:  # where every name is in lower case
        return ""
    return "%s needs the Jupyter kernel %r, which is not installed in %s; installed: %s\n" % (
        path,
        kernel,
        sys.prefix,
        ", ".join(names) or "none",
    )


def _client(notebook: "Any", folder: "str", kernel: "str") -> "Any":
    from nbclient import NotebookClient

    class Client(NotebookClient):  # type: ignore[misc,unused-ignore]
        """Shows the output of cells while they run."""

        def process_message(self, message: "Dict[str, Any]", cell: "Any", cell_index: "int") -> "Any":
            _show(message.get("msg_type", ""), message.get("content", {}))
            return super(Client, self).process_message(message, cell, cell_index)

    resources = {"metadata": {"path": folder}}
    options = {"timeout": None, "startup_timeout": _STARTUP_S, "kernel_name": kernel}
    client = Client(notebook, resources=resources, **options)
    manager, runtime = client.create_kernel_manager(), os.environ["JUPYTER_RUNTIME_DIR"]
    manager.connection_file = os.path.join(runtime, "kernel.json")
    if len(os.fsencode(runtime)) < _LONGEST_FOLDER:  # sockets in that folder; no port is opened
        manager.transport, manager.ip = "ipc", os.path.join(runtime, "kernel")
    return client


def _kernel(metadata: "Any") -> "str":
    """This interpreter's kernel for every notebook of Python, whatever its author called theirs."""
    spec = metadata.get("kernelspec", {})
    language = metadata.get("language_info", {}).get("name") or spec.get("language") or "python"
    return _PYTHON_KERNEL if language.lower() == "python" else spec.get("name", _PYTHON_KERNEL)


def _set_arguments(client: "Any", argv: "List[str]") -> "None":
    """``sys.argv`` in the notebook, as a script has it."""
    from nbformat.v4 import new_code_cell  # type: ignore[import-not-found,unused-ignore]

    cells = client.nb.cells
    cells.insert(0, new_code_cell("import sys as _sys; _sys.argv = %r; del _sys" % (argv,)))
    client.execute_cell(cells[0], 0, store_history=False)
    del cells[0]


def _show(kind: "str", content: "Dict[str, Any]") -> "None":
    """Text of a cell's output. Pictures and tables are in the executed copy."""
    if kind == "stream":
        stream = sys.stderr if content.get("name") == "stderr" else sys.stdout
        _write(stream, content.get("text", ""))
    elif kind in ("execute_result", "display_data"):
        text = content.get("data", {}).get("text/plain", "")
        _write(sys.stdout, text + "\n" if text else "")
    elif kind == "error":
        _write(sys.stderr, _COLOURS.sub("", "\n".join(content.get("traceback", []))) + "\n")


def _write(stream: "Any", text: "str") -> "None":
    stream.buffer.write(text.encode("utf-8", "replace"))
    stream.flush()


def _keep(notebook: "Any", path: "str") -> "None":
    import nbformat

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    _files.replace_file(path, lambda beside: nbformat.write(notebook, beside))


def _stop(_number: "int", _frame: "object") -> "NoReturn":
    """The copy is kept of a run that is canceled too."""
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
