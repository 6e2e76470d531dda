"""``--query``: a JMESPath expression applied to a result, with limits on length, depth, size and time.

Only multi-selects can repeat a value (``[@,@]``) and only a few nodes build lists and text. Their results are charged
to a budget in which a repeated value counts each time, so no later step, in Python or in C, meets more than that.
"""

from __future__ import annotations

import time

from jmespath import compile as parsed
from jmespath import exceptions, functions, visitor

from holdfast.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LENGTH_LIMIT = 10_000  # characters of an expression
DEPTH_LIMIT = 100  # of a value that is built
TIME_LIMIT_S = 3.0
SIZE_LIMIT = 128 << 20  # characters and values of everything that is built
LIST_LIMIT = 1_000_000  # values of a list that a function is given: sorting cannot be interrupted
_COPIES = {"slice", "flatten", "projection", "filter_projection", "value_projection", "function_expression"}


class _LimitError(Exception):
    """A limit was reached; the message says which."""


def search(expression: str, value: Any) -> Any:
    """What ``expression`` picks from ``value``, which must be made of what JSON can hold."""
    if len(expression) > LENGTH_LIMIT:
        raise _refused(f"the expression is {len(expression)} characters long, more than {LENGTH_LIMIT}")
    try:
        limits = _Limits()
        result = _Interpreter(limits).visit(parsed(expression).parsed, value)
        limits.charge(result)
    except exceptions.EmptyExpressionError:
        raise _refused("the expression is empty") from None
    except exceptions.IncompleteExpressionError:
        raise _refused("the expression ends too early") from None
    except exceptions.LexerError as error:
        raise _refused(f"{error.message} at character {error.lexer_position + 1}") from None
    except exceptions.ArityError as error:
        raise _refused(str(error)) from None
    except exceptions.ParseError as error:
        raise _refused(f"did not expect '{error.token_value}' at character {error.lex_position + 1}") from None
    except exceptions.JMESPathTypeError as error:  # its own text holds the whole value
        expected = " or ".join(error.expected_types)
        raise _refused(f"{error.function_name}() takes {expected}, not {error.actual_type}") from None
    except RecursionError:
        raise _refused("the expression nests too deeply") from None
    except MemoryError:
        raise _refused("it needs too much memory") from None
    except Exception as error:  # the library lets TypeError, AttributeError and others of its own through
        raise _refused(str(error)) from None
    return result


class _Limits:
    """What one evaluation has used. Time is that of this thread, so that a busy machine refuses no ordinary query."""

    def __init__(self) -> None:
        self._deadline = time.thread_time() + TIME_LIMIT_S
        self._steps = 0
        self._size = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps % 100 == 0 and time.thread_time() > self._deadline:
            raise _LimitError(f"it took more than {TIME_LIMIT_S:g} s")

    def add(self, size: int) -> None:
        self._size += size
        if self._size > SIZE_LIMIT:
            raise _LimitError(f"it builds more than {SIZE_LIMIT >> 20} MiB")

    def charge(self, value: Any) -> None:
        """Add the size of ``value`` as it would be written out."""
        level: list[Any] = [[value]]
        for _ in range(DEPTH_LIMIT):
            below: list[Any] = []
            for container in level:
                self.step()
                is_dict = isinstance(container, dict)
                self.add(2 * len(container) + (sum(map(len, container)) if is_dict else 0))
                self.add(sum(_length(item, below) for item in (container.values() if is_dict else container)))
            if not below:
                return
            level = below
        raise _LimitError("its result nests too deeply")


def _length(item: Any, containers: list[Any]) -> int:
    """Of a text or number; a list or object is put to ``containers``."""
    if isinstance(item, (list, dict)):
        containers.append(item)
        return 0
    if isinstance(item, str):
        return len(item)
    if isinstance(item, int):
        return item.bit_length() // 3
    if item is None or isinstance(item, float):
        return 0
    raise _LimitError("its result is an expression (&), not a value")


class _Interpreter(visitor.TreeInterpreter):  # type: ignore[misc]
    def __init__(self, limits: _Limits) -> None:
        super().__init__(visitor.Options(custom_functions=_Functions(limits)))
        self._limits = limits

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._limits.step()
        result = super().visit(node, *args, **kwargs)
        if node["type"] in _COPIES:
            self._limits.add(len(result) if isinstance(result, list) else 0)
        elif node["type"] in ("multi_select_list", "multi_select_dict"):
            self._limits.charge(result)
        return result


class _Functions(functions.Functions):  # type: ignore[misc]
    def __init__(self, limits: _Limits) -> None:
        self._limits = limits

    def call_function(self, function_name: str, resolved_args: list[Any]) -> Any:
        sizes = [len(value) for value in resolved_args if isinstance(value, (list, str))]
        if any(isinstance(value, list) and len(value) > LIST_LIMIT for value in resolved_args):
            raise _LimitError(f"{function_name}() was given more than {LIST_LIMIT} values")
        if function_name in ("join", "to_string"):
            self._limits.charge(resolved_args)
            self._limits.add(sizes[0] * sizes[1] if len(sizes) > 1 else 0)
        return super().call_function(function_name, resolved_args)


def _refused(why: str) -> UsageError:
    from holdfast.present.terminal import clip, show

    return UsageError(clip(show(why), 300), where="--query", hint="see https://jmespath.org")
