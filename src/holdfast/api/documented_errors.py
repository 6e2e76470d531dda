"""Makes the public functions raise errors of ``holdfast.errors`` only."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from holdfast.engine.system_errors import translate
from holdfast.runner.store.lock_wait import Held
from holdfast.runner.untrusted import Untrusted

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


def documented_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Errors of the operating system (a full disk, a limit) become the errors that the command line reports."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (OSError, MemoryError, Held, Untrusted) as error:
            documented = translate(error)
            if documented is None:
                raise
            raise documented from error

    return wrapper
