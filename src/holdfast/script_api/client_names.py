"""The names of the Python API in a script of a run, where ``import holdfast`` is ``track.py``.

Where Holdfast is installed beside the script they are the real ones. ``holdfast.remote`` is there everywhere, because
modules with remote functions are imported on targets. There it runs the function in place.
"""

import functools
import importlib
import importlib.util

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

# As in holdfast/__init__.py.
API = frozenset(
    (
        *("submit", "run", "runs", "targets", "remote", "errors", "Run", "RunList", "Metric", "Metrics", "Outputs"),
        *("Progress", "RemoteFunction", "RemoteRun", "TargetInfo"),
    )
)

# What a call of a remote function sets: nothing is submitted from there. Text is the reason to refuse even a call here.
in_call = False
refusal = ""


def look_up(name: "str") -> "object":
    """What ``holdfast.NAME`` is; AttributeError where it is nothing."""
    substitute = _SUBSTITUTES.get(name)
    if name == "errors" and _is_installed("holdfast.errors"):
        return importlib.import_module("holdfast.errors")
    if name in API and not (substitute and in_call) and _is_installed("holdfast.api"):
        return getattr(importlib.import_module("holdfast.api"), name)
    if name == "load_ipython_extension":
        return load_ipython_extension
    if name == "__version__" and _is_installed("holdfast._version"):
        return importlib.import_module("holdfast._version").__version__
    if substitute is not None:
        return substitute
    if name in API:
        raise AttributeError("holdfast.%s needs Holdfast on this machine: pip install holdfast" % name)
    raise AttributeError("module 'holdfast' has no attribute %r" % name)


def load_ipython_extension(shell: "Any") -> "None":
    """``%load_ext holdfast`` in a kernel on a target, which has ``%azureml`` already."""
    if _is_installed("holdfast.api.notebook_magics"):
        importlib.import_module("holdfast.api.notebook_magics").load(shell)


def remote(function: "Any" = None, **_options: "object") -> "Any":
    """Stands for ``holdfast.remote`` on a target."""
    return LocalFunction if function is None else LocalFunction(function)


class LocalFunction:
    """A remote function on the target itself: calls run here."""

    def __init__(self, function: "Callable[..., Any]") -> "None":
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        if refusal:
            raise RuntimeError(refusal)
        return self.function(*args, **kwargs)

    local = __call__

    def map(self, *iterables: "Iterable[Any]", **options: "object") -> "Iterator[Any]":
        """One call after another, here."""
        if refusal:
            raise RuntimeError(refusal)
        return map(self._result_or_error if options.get("return_errors") else self.function, *iterables)

    def submit(self, *_args: "object", **_kwargs: "object") -> "Any":
        """A run is submitted by a client only."""
        raise RuntimeError(refusal or "a remote function submits no runs on the target; call it instead")

    def __reduce__(self) -> "str":
        return str(self.function.__qualname__)  # by its name, for processes on the target

    def _result_or_error(self, *args: "Any") -> "Any":
        try:
            return self.function(*args)
        except Exception as error:
            return error


def _is_installed(module: "str") -> "bool":
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):
        return False


_SUBSTITUTES = {"remote": remote}  # type: dict[str, Callable[..., object]]
