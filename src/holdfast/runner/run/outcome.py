"""Decides the outcome of a run from the script's exit code and the reason it was stopped. Pure."""

from .. import signals
from ..signals import signal

# Why a run was told to stop: such a code, perhaps with ": " and a text for people behind it.
CANCELED = "canceled"
TIMEOUT = "timeout"
GUARDIAN_DIED = "guardian-died"
GPU_IDLE = "gpu-idle"
GPU_IDLE_CODE = 79


def judge(
    code: "int", stopping: "str", timeout: "str", reported: "str" = "", lost: "bool" = False
) -> "tuple[str, int, str]":
    """(outcome, exit code for the client, reason as text) from the script's end and the reason for a stop.

    ``reported`` is what other sources say about its end, ``lost`` that it is unknown.
    """
    exit_code = 128 - code if code < 0 else code
    stop_code = stopping.partition(":")[0]
    if stop_code == CANCELED:
        return (
            "canceled",
            exit_code or 143,
            "canceled" + ("" if code < 0 else " (the script then exited with code %d)" % code),
        )
    if stop_code == GUARDIAN_DIED:
        return "lost", 125, "the runner's guardian was killed; the script was ended with it"
    if stop_code == GPU_IDLE:
        return "failed", GPU_IDLE_CODE, stopping
    if stop_code == TIMEOUT:
        return "failed", 124, "timed out after %s" % timeout
    if stopping:
        return "failed", exit_code or 143, stopping
    if lost:
        return "lost", 125, reported
    if reported:
        return "failed", exit_code or 125, reported
    if code < 0:
        return "failed", exit_code, "killed by " + _signal_text(-code)
    if code:
        return "failed", exit_code, "the script exited with code %d" % code
    return "completed", 0, ""


def _signal_text(number: "int") -> "str":
    meanings = {  # type: dict[int, str]
        signal.SIGSEGV: "invalid memory access",
        signal.SIGABRT: "aborted, often a failed assertion in native code",
        signal.SIGKILL: "by another process, or by the kernel when memory ran out",
        signal.SIGBUS: "a mapped file was truncated or memory is faulty",
        signal.SIGFPE: "a division by zero in native code",
        signal.SIGXFSZ: "file size limit exceeded, see ulimit -f",
        signal.SIGXCPU: "CPU time limit exceeded, see ulimit -t",
        signal.SIGILL: "the program uses an instruction that this CPU does not support",
    }
    name = signals.names().get(number, "signal %d" % number)
    meaning = meanings.get(number)
    return "signal %d (%s%s)" % (number, name, ": " + meaning if meaning else "")
