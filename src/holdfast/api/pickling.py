"""Pickles functions and values for a target, where remote functions run in place."""

from __future__ import annotations

import inspect
import io
import os
import pickle
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROTOCOL = 4  # Python 3.4 and newer read it
MAINS = ("__main__", "__mp_main__")  # the second one is the main script in a process that multiprocessing spawned
# cloudpickle keeps the modules that are pickled by value in one set for the whole process.
_using_cloudpickle = threading.RLock()
if sys.platform != "win32":  # a child must not begin while another thread holds the lock
    _release = _using_cloudpickle.release
    os.register_at_fork(before=_using_cloudpickle.acquire, after_in_parent=_release, after_in_child=_release)


class Dumps(Protocol):
    """``pickle.dumps``, or one that pickles more."""

    def __call__(self, value: Any, /, protocol: int) -> bytes: ...


class InPlaceFunction:
    """Base of ``RemoteFunction``: the target's own class of that kind takes its place there, without its options."""

    _function: Callable[..., Any]


def plain_dumps(value: Any, /, protocol: int) -> bytes:
    return pickle.dumps(value, protocol=protocol)


def cloudpickle_module() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return None
    return cloudpickle


def by_value(is_there: Callable[[str], bool]) -> Dumps:
    """A ``dumps`` for values that use functions and classes which the target cannot import, with cloudpickle.

    ``is_there``: whether the target can import a module, by its name.
    """
    cloudpickle = cloudpickle_module()
    pickler: Any = cloudpickle.Pickler

    def dumps(value: Any, /, protocol: int) -> bytes:
        buffer = io.BytesIO()
        with _modules_by_value(cloudpickle, is_there) as add_module_of:

            class Pickler(pickler):  # type: ignore[misc]
                def reducer_override(self, value: Any) -> Any:
                    if not isinstance(value, InPlaceFunction) or _is_found(value, is_there):
                        return super().reducer_override(value)
                    add_module_of(value._function)
                    return type(value), (value._function,)

            if inspect.isfunction(value):
                add_module_of(value)
            Pickler(buffer, protocol=protocol).dump(value)
        return buffer.getvalue()

    return dumps


def names_main(data: bytes) -> bool:
    """Whether a pickle may refer to something of the main script, which the target does not have under that name."""
    return any(name.encode() in data for name in MAINS)


@contextmanager
def _modules_by_value(cloudpickle: Any, is_there: Callable[[str], bool]) -> Iterator[Callable[[Any], None]]:
    """Gives a function that has cloudpickle take all content of a function's module by value, until the end."""
    with _using_cloudpickle:
        known: set[str] = cloudpickle.list_registry_pickle_by_value() | {"__main__"}
        added: list[Any] = []

        def add(name: str) -> None:
            module = sys.modules.get(name)
            if module is not None and name not in known and not is_there(name):
                cloudpickle.register_pickle_by_value(module)
                known.add(name)
                added.append(module)

        add("__mp_main__")
        try:
            yield lambda function: add(function.__module__)
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


def _is_found(remote: InPlaceFunction, is_there: Callable[[str], bool]) -> bool:
    """Whether the target finds the remote function itself, and not only the function that was decorated."""
    function = remote._function
    value: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is remote and is_there(function.__module__)
