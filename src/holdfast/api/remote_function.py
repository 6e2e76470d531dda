"""``holdfast.remote``: calls of a function as runs on a target."""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from holdfast import project as projects
from holdfast.api import sending
from holdfast.api.call_pool import in_order
from holdfast.api.documented_errors import documented_errors
from holdfast.api.option_checks import check_options
from holdfast.api.pickling import InPlaceFunction
from holdfast.api.progress import Progress, listener
from holdfast.api.run_handle import Run
from holdfast.api.script_submit import submit_words
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Unpack

    from holdfast.api.script_submit import Options

P = ParamSpec("P")
R = TypeVar("R")


class RemoteRun(Run, Generic[R]):
    """The run of one call; ``result`` is what the function returned."""

    _allow_pickle = False

    def result(self, timeout: float | None = None, *, allow_pickle: bool = False) -> R:
        """As ``Run.result``; ``allow_pickle`` of the decorator counts too."""
        return cast("R", super().result(timeout, allow_pickle=allow_pickle or self._allow_pickle))


class RemoteFunction(InPlaceFunction, Generic[P, R]):
    """A function whose calls are runs: ``f(...)`` waits for the value, ``f.submit(...)`` returns a run."""

    _function: Callable[P, R]

    def __init__(self, function: Callable[P, R], options: Options, *, allow_pickle: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._allow_pickle = allow_pickle

    def __repr__(self) -> str:
        target = self._options.get("config") or self._options.get("target")
        return f"<RemoteFunction {self._function.__qualname__}{f' on {target}' if target else ''}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function on the target and wait for its value."""
        return self.submit(*args, **kwargs).result()

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here."""
        return self._function(*args, **kwargs)

    @documented_errors
    def submit(self, *args: P.args, **kwargs: P.kwargs) -> RemoteRun[R]:
        """Start a call on the target and return its run, without waiting for it."""
        return self._submit(args, kwargs, self._options)

    def map(self, *iterables: Iterable[Any], concurrency: int = 8, return_errors: bool = False) -> Iterator[R]:
        """Call the function with the items of the iterables, as ``map`` does, and yield the values in order.

        At most ``concurrency`` runs are open at a time. The first call that fails raises its error here, and no
        further calls are started; those that run go on. With ``return_errors`` the error takes the place of the value.
        """
        if type(concurrency) is not int or concurrency < 1:
            raise UsageError("concurrency must be a whole number, 1 or more", answer=ascii(concurrency)[:200])
        options: Options = {**self._options, "progress": None}
        calls = (functools.partial(self._call, args, options) for args in zip(*iterables, strict=False))
        tell = listener(self._options.get("progress"))
        for number, value in enumerate(in_order(calls, concurrency), 1):
            if tell is not None:
                tell(Progress("calls", number, None, f"{self._function.__name__}: {number} results"))
            if isinstance(value, Exception) and not return_errors:
                raise value
            yield cast("R", value)

    def __get__(self, instance: object, owner: type | None = None) -> RemoteFunction[P, R]:
        if instance is not None:
            what = f"{self._function.__qualname__} is a method; holdfast.remote is for functions"
            raise UsageError(what, hint="write a function that takes the object as an argument")
        return self

    def __reduce__(self) -> str:
        return self._function.__qualname__  # by its name, like a function; api/pickling.py for targets

    @documented_errors
    def _call(self, args: tuple[Any, ...], options: Options) -> R:
        return self._submit(args, {}, options).result()

    def _submit(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> RemoteRun[R]:
        function = self._function
        root = projects.find(os.path.abspath(options.get("project") or os.getcwd())).root
        arguments = sending.arguments_for_history(function, args, kwargs)
        files = sending.files(function, args, kwargs, root, allow_pickle=self._allow_pickle)
        script = f"{sending.FOLDER}/{sending.script_name(function)}"
        run = submit_words((script, *arguments), files, options)
        made: RemoteRun[R] = RemoteRun(run._home, run.uid, restart=True, on_end=run._on_end)
        made._allow_pickle = self._allow_pickle
        return made


@overload
def remote(function: Callable[P, R], /) -> RemoteFunction[P, R]: ...


@overload
def remote(
    *, allow_pickle: bool = False, **options: Unpack[Options]
) -> Callable[[Callable[P, R]], RemoteFunction[P, R]]: ...


def remote(
    function: Callable[P, R] | None = None, /, *, allow_pickle: bool = False, **options: Unpack[Options]
) -> RemoteFunction[P, R] | Callable[[Callable[P, R]], RemoteFunction[P, R]]:
    """Make the calls of a function runs on a target: ``@holdfast.remote(target="gpu1", gpus=1)``.

    The keywords are those of ``submit``. A function at the top level of a module of the project travels with the
    project; any other one is pickled by value, which needs the package cloudpickle here. Arguments are pickled. The
    value comes back as JSON, numpy arrays as .npy and data frames as Arrow files; a value of another type is an error,
    unless ``allow_pickle`` says that the target may send pickles. Unpickling runs code that the target chose.
    """
    check_options("remote", options)
    if function is None:
        return lambda decorated: RemoteFunction(_checked(decorated), options, allow_pickle=allow_pickle)
    return RemoteFunction(_checked(function), options, allow_pickle=allow_pickle)


def _checked(function: Callable[P, R]) -> Callable[P, R]:
    """Its value must come back: that of a generator or a coroutine cannot."""
    if not inspect.isroutine(function) or inspect.ismethod(function):
        raise UsageError("remote takes a function", answer=repr(function)[:200], hint='@holdfast.remote(target="gpu1")')
    kinds = {"an async": inspect.iscoroutinefunction, "a generator": inspect.isgeneratorfunction}
    for kind, is_of_kind in {**kinds, "an async generator": inspect.isasyncgenfunction}.items():
        if is_of_kind(function):
            what = f"{function.__qualname__} is {kind} function, whose value cannot be returned"
            raise UsageError(what, hint="return a list; call asyncio.run(...) inside the function")
    return function
