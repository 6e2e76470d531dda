"""Starts the script: its environment variables, its working folder, stdout and stderr in one pipe."""

import os

from .. import signals
from ..decoding import readable
from ..machine import limits, processes
from ..signals import signal

# What a script may inherit of the machine it runs on. Everything else must be asked for by name (-e, --env-file,
# --secret, EnvironmentVariables), so that a token of the user's shell does not end up in a log.
INHERITED = (
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH "
    "CUDA_HOME CUDA_VISIBLE_DEVICES HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy"
).split()


class CannotStart(Exception):
    """The script's command could not be started; the text says why."""

    code = 127


def environment(
    base: "dict[bytes, bytes]", requested: "dict[bytes, bytes]", ours: "dict[bytes, bytes]"
) -> "dict[bytes, bytes]":
    """The script's whole environment: inherited by the list above, then ours, then the user's variables."""
    kept = {name: base[name] for name in (word.encode() for word in INHERITED) if name in base}
    kept.update((name, value) for name, value in base.items() if name.startswith(b"LC_"))
    kept.update(ours)
    kept.update(requested)
    site = ours.get(b"PYTHONPATH")
    if site and b"PYTHONPATH" in requested:
        kept[b"PYTHONPATH"] = site + b":" + requested[b"PYTHONPATH"]
    return kept


def spawn(argv: "list[bytes]", env: "dict[bytes, bytes]", folder: "bytes", umask: "int") -> "tuple[int, int]":
    """Start argv in folder, in a session of its own, stdin empty; returns its pid and the end of its output pipe."""
    try:
        output, theirs = os.pipe()
        widen(output)
        trouble, report = os.pipe()
        pid = os.fork()
    except OSError as error:
        raise CannotStart("the script's process could not be started: %s" % limits.told(error)) from error
    if pid == 0:
        try:
            _become(argv, env, folder, umask, theirs, report)
        except BaseException as error:
            os.write(report, _reason(error, argv[0]).encode("utf-8", "replace")[:4000])
        finally:
            os._exit(127)
    os.close(theirs)
    os.close(report)
    answer = os.read(trouble, 4096)
    os.close(trouble)
    if answer:
        os.close(output)
        os.waitpid(pid, 0)
        raise CannotStart(readable(answer))
    os.set_blocking(output, False)
    return pid, output


def _reason(error: "BaseException", program: "bytes") -> "str":
    """Why the script could not be started. For a bare name, the error has the last path that was tried."""
    if not isinstance(error, OSError):
        return str(error)
    name = os.path.basename(program)
    if not isinstance(error.filename, bytes) or os.path.basename(error.filename) not in (name, b"python3"):
        return str(error)
    if b"python" in name:
        cause = os.strerror(error.errno or 0)
        return "%s cannot be started: %s (check pythonLocation)" % (os.fsdecode(program), cause)
    from ..container import exec_errors

    return exec_errors.reason(error, program)


def _become(
    argv: "list[bytes]", env: "dict[bytes, bytes]", folder: "bytes", umask: "int", output: "int", report: "int"
) -> "None":
    os.setsid()
    processes.die_with_parent(signal.SIGKILL)
    for number in set(signals.names()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)  # also what Python or the caller's shell has set to be ignored
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, report)  # the script inherits no open files of the caller's shell
    os.closerange(report + 1, 4096)
    os.umask(umask)
    os.chdir(folder)
    try:
        os.execvpe(argv[0], argv, env)
    except FileNotFoundError:
        if argv[0] != b"python":
            raise
        os.execvpe(b"python3", [b"python3", *argv[1:]], env)  # Debian and its kin have no plain python


def widen(pipe: "int") -> "None":
    """A fuller pipe means fewer wake-ups for a script that prints a lot."""
    import fcntl

    try:
        fcntl.fcntl(pipe, 1031, 1024 * 1024)  # F_SETPIPE_SZ; Linux only
    except (OSError, ValueError):
        return
