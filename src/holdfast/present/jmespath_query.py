"""``--query``: a JMESPath expression applied to a result, within bounds.

A short expression can ask for 2^40 elements or nest deeper than the interpreter's stack, and much of that happens
inside C functions that no Python signal handler can interrupt. So it is evaluated in a forked child that the kernel
ends after ``TIME_LIMIT_S`` seconds or ``MEMORY_LIMIT`` bytes, and its answer comes back as JSON through a pipe.
Where there is no fork (Windows) only the limits on length and depth hold; Ctrl-C ends a query that goes on too long.
"""

from __future__ import annotations

import json
import os
import sys

from holdfast.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

LENGTH_LIMIT = 10_000
TIME_LIMIT_S = 1.5
MEMORY_LIMIT = 2 << 30
RESULT_LIMIT = 64 << 20


def search(expression: str, value: Any) -> Any:
    """What ``expression`` picks from ``value``, which must be made of what JSON can hold."""
    if len(expression) > LENGTH_LIMIT:
        raise _refused(f"the expression is {len(expression)} characters long, more than {LENGTH_LIMIT}")
    if sys.platform == "win32":
        return _evaluate(expression, value)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(writer, expression, value)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read(RESULT_LIMIT + 1)
    os.waitpid(child, 0)
    if len(answer) > RESULT_LIMIT:
        raise _refused(f"the result is larger than {RESULT_LIMIT >> 20} MiB")
    if not answer:
        raise _refused(f"it took more than {TIME_LIMIT_S} s or {MEMORY_LIMIT >> 30} GiB of memory")
    outcome = json.loads(answer)
    if "refused" in outcome:
        raise _refused(outcome["refused"])
    return outcome["result"]


def _answer(writer: int, expression: str, value: Any) -> NoReturn:
    """The child's whole life. It leaves by ``os._exit``, so that nothing of the parent's is flushed twice."""
    try:
        _limit_this_process()
        try:
            answer = json.dumps({"result": _evaluate(expression, value)})
        except UsageError as error:
            answer = json.dumps({"refused": error.what})
        except RecursionError:
            answer = json.dumps({"refused": "its result nests too deeply"})
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer.encode())
    finally:
        os._exit(0)


def _limit_this_process() -> None:
    if sys.platform == "win32":
        return
    import resource
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, hard))
    except (ValueError, OSError):  # a lower limit is set already, or the system does not offer one (macOS)
        pass


def _evaluate(expression: str, value: Any) -> Any:
    import jmespath
    from jmespath import exceptions

    try:
        return jmespath.search(expression, value)
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
    except RecursionError:
        raise _refused("the expression nests too deeply") from None
    except MemoryError:
        raise _refused("it needs too much memory") from None
    except Exception as error:  # the library lets TypeError, AttributeError and others of its own through
        raise _refused(str(error)) from None


def _refused(why: str) -> UsageError:
    from holdfast.present.terminal import clip, show

    return UsageError(clip(show(why), 300), where="--query", hint="the language is described at https://jmespath.org")
