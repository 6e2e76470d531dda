"""Makes the public functions raise errors of ``holdfast.errors`` only, with their hints."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from holdfast.engine.system_errors import translate
from holdfast.errors import HoldfastError
from holdfast.runner.store.lock_wait import Held
from holdfast.runner.untrusted import Untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
T = TypeVar("T")


def documented_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Errors of the operating system (a full disk, a limit) become the errors that the command line reports."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with raised_documented():
            return function(*args, **kwargs)

    return wrapper


@contextmanager
def raised_documented() -> Iterator[None]:
    """The same for a block, as a generator needs it."""
    try:
        yield
    except HoldfastError as error:
        error.shows_hint = True
        raise
    except (OSError, MemoryError, Held, Untrusted) as error:
        documented = translate(error)
        if documented is None:
            raise
        documented.shows_hint = True
        raise documented from error
