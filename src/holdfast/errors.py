"""All errors of Holdfast, with their exit codes.

HoldfastError
├── UsageError          2   the command line names something that is not there or makes no sense
│   ├── NoPythonError        the target has no Python that the runner can use
│   ├── CannotSendError      a function or argument of ``holdfast.remote`` cannot be sent to a target
│   └── MissingPackageError  a part of the Python API needs a package that is not installed; also an ImportError
├── ConfigError        65   a project or settings file says something we cannot follow
│   ├── BuildNeededError     its environment needs a program of a package to be run, which was not asked for
│   └── NoGpuError     81    a container is to have a GPU, and its target has none for it
├── RunFailedError      1   a run that the Python API waited for did not complete
│   └── RemoteError          the function of ``holdfast.remote`` raised an exception on the target
├── UnreachableError   69   the target did not answer; nothing is concluded about its runs
│   ├── SilentError          it sent nothing within the time it was given
│   │   └── UnfinishedError  it sent more than could be received in that time; what came is kept
│   ├── AuthenticationError  its SSH server refused the login
│   ├── RemoteCommandError   its login shell or Python ended before the runner answered
│   ├── RunnerError          the runner there answered that it failed
│   └── MalformedAnswerError what it sent is not an answer
├── InternalError      70   a bug of ours
├── ResourceError      71   a limit of this machine on processes, memory, open files or file size was reached
├── StoreError         74   the store on this disk is missing, damaged, full, read-only or too new
│   ├── LockedError          another process holds a lock of the store for too long
│   └── NoPlaceError         the target has no folder where a store can be made
├── HostKeyError       76   the target's host key is not the one that was pinned
│   └── UnknownHostKeyError  no key is pinned, and known_hosts does not have it
├── GpuIdleError       79   a run that had to use its GPU did not
├── PassportError      80   a passport is not what was signed, or not by whom it should be
├── TimedOutError     124   the run reached its time limit
├── StillRunningError 124   the run did not end within the time that the Python API was to wait; also a TimeoutError
├── LostError         125   the run ended and it is unknown how
└── Detached          130   the person stopped watching; the run goes on

A class has an exit code and a ``code``, which never changes, while messages may be reworded. The raiser passes the
facts: what happened, where, what was answered and what to try. They are caught once, in ``cli.main``, and printed as
one ``ERROR:`` line and indented facts.
The table in ``docs/errors.md`` is made from this module.
"""

from __future__ import annotations

_LONGEST_ANSWER = 2000  # characters of it in the text of an exception


class HoldfastError(Exception):
    """What went wrong, where, what was answered there, and what to do next."""

    exit_code = 70
    code = "failed"
    shows_hint = False  # set by the Python API: a traceback has no other place for the answer and the hint
    shows_answer = True  # then; False where the answer is long and has an attribute of its own

    def __init__(self, what: str, *, where: str = "", answer: str = "", hint: str = "", code: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.answer = answer
        self.hint = hint
        self.code = code or type(self).code

    def __str__(self) -> str:
        text = _printable(f"{self.where}: {self.what}" if self.where else self.what)
        answer = _shortened(self.answer) if self.shows_answer else ""
        details = [("answer", answer), ("try", self.hint)] if self.shows_hint else []
        return "".join([text, *(f"\n  {name}: {_printable(value)}" for name, value in details if value)])


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_ANSWER else f"{text[:_LONGEST_ANSWER]}..."


def _printable(text: str) -> str:
    """Some of it may come from a target: it must not act on a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


class UsageError(HoldfastError):
    """The command line asks for something that does not exist or contradicts itself."""

    exit_code = 2
    code = "usage"


class NoPythonError(UsageError):
    """The target was searched for a Python that the runner can use, and there is none."""

    code = "no-python"


class CannotSendError(UsageError):
    """A function or argument of ``holdfast.remote`` cannot be pickled, or its code cannot be found on the target."""

    code = "cannot-send"


class MissingPackageError(UsageError, ImportError):
    """A part of the Python API needs a package that is not installed here."""

    code = "missing-package"


class ConfigError(HoldfastError):
    """A file written by a person (project, target, settings) cannot be followed."""

    exit_code = 65
    code = "bad-configuration"


class BuildNeededError(ConfigError):
    """An environment's lock can only be found by running a program of a package, or by a login of git."""

    code = "build-needed"


class RunFailedError(HoldfastError):
    """A run that the Python API waited for failed, was canceled or was lost."""

    exit_code = 1
    code = "run-failed"
    shows_answer = False  # the end of its log


class RemoteError(RunFailedError):
    """The function of ``holdfast.remote`` raised an exception on the target, or left no result.

    ``type_name``, ``message`` and ``traceback`` are text: no class of the target is loaded here.
    """

    code = "remote-exception"
    shows_answer = False  # the traceback
    type_name = ""
    message = ""
    traceback = ""


class UnreachableError(HoldfastError):
    """The target did not answer. Its runs keep their last known state."""

    exit_code = 69
    code = "target-unreachable"
    # How often in a row it is worth trying; None where the link is at fault, which may come back at any time.
    retry_limit: int | None = None


class SilentError(UnreachableError):
    """The target accepted the connection and then sent nothing within the time it was given."""

    code = "target-silent"


class UnfinishedError(SilentError):
    """The target did not send everything within the time of a command that looks; what came is kept."""

    code = "answer-unfinished"


class AuthenticationError(UnreachableError):
    """The target's SSH server refused the login: the key is not accepted, or the account is locked or expired."""

    code = "authentication-failed"
    retry_limit = 3


class RemoteCommandError(UnreachableError):
    """The target's login shell, or Python there, ended before the runner answered."""

    code = "remote-command-failed"
    retry_limit = 3


class RunnerError(UnreachableError):
    """The runner on the target answered that it could not do what it was asked for."""

    code = "runner-failed"
    retry_limit = 3


class MalformedAnswerError(UnreachableError):
    """The target sent something that is not an answer: a field is missing or of the wrong type."""

    code = "malformed-answer"
    retry_limit = 3


class InternalError(HoldfastError):
    """A bug in Holdfast; please report it."""

    exit_code = 70
    code = "internal-error"


class ResourceError(HoldfastError):
    """A limit on processes, memory, open files or file size was reached, here or on the target."""

    exit_code = 71
    code = "resource-limit"


class StoreError(HoldfastError):
    """The store cannot be read or written: damaged, full, read-only, missing or made by a newer Holdfast."""

    exit_code = 74
    code = "store-unusable"


class LockedError(StoreError):
    """Another process holds a lock of the store and did not let go of it in time; ``by`` says which."""

    code = "store-locked"
    by = "another process"


class NoPlaceError(StoreError):
    """The login succeeded, but no folder on the target can hold a store."""

    code = "no-store-location"


class HostKeyError(HoldfastError):
    """The target showed a host key other than the pinned one. Nothing was sent."""

    exit_code = 76
    code = "host-key-changed"


class UnknownHostKeyError(HostKeyError):
    """The target's host key is neither pinned nor in the user's known hosts. Nothing was sent."""

    code = "host-key-unknown"


class GpuIdleError(HoldfastError):
    """A run started with --require-gpu never touched its GPU."""

    exit_code = 79
    code = "gpu-idle"


class PassportError(HoldfastError):
    """A passport was changed after it was signed, or was signed by another key."""

    exit_code = 80
    code = "bad-passport"


class NoGpuError(ConfigError):
    """``nvidiaDocker: true``, and the target has no NVIDIA GPU for containers, or a driver too old for the image."""

    exit_code = 81
    code = "no-gpu"


class TimedOutError(HoldfastError):
    """The run was ended because it reached its --timeout."""

    exit_code = 124
    code = "timed-out"


class StillRunningError(HoldfastError, TimeoutError):
    """The run did not end within the time that the Python API was to wait. It continues."""

    exit_code = 124
    code = "still-running"


class LostError(HoldfastError):
    """The run is over and its outcome cannot be known (the machine rebooted, runner and guardian were killed)."""

    exit_code = 125
    code = "run-lost"


class Detached(HoldfastError):
    """The user stopped following the log (Ctrl-C). The run continues."""

    exit_code = 130
    code = "detached"
