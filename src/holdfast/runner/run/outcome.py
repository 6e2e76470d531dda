"""Decides the outcome of a run from the script's exit code and the reason it was stopped. Pure."""

import signal

GUARDIAN_DIED = "the runner's guardian was killed; the script was ended with it"
GPU_IDLE = "gpu-idle"
GPU_IDLE_CODE = 79


def judge(
    code: "int", stopping: "str", timeout: "str", told: "str" = "", lost: "bool" = False
) -> "tuple[str, int, str]":
    """(outcome, exit code for the client, reason as text) from the script's end and the reason for a stop.

    ``told`` is what other sources say about its end, ``lost`` that it is unknown.
    """
    exit_code = 128 - code if code < 0 else code
    if stopping == "canceled":
        return (
            "canceled",
            exit_code or 143,
            "canceled" + ("" if code < 0 else " (the script then exited with code %d)" % code),
        )
    if stopping == GUARDIAN_DIED:
        return "lost", 125, stopping
    if stopping.startswith(GPU_IDLE):
        return "failed", GPU_IDLE_CODE, stopping
    if stopping == "timeout":
        return "failed", 124, "timed out after %s" % timeout
    if stopping:
        return "failed", exit_code or 143, stopping
    if lost:
        return "lost", 125, told
    if told:
        return "failed", exit_code or 125, told
    if code < 0:
        return "failed", exit_code, "killed by " + _signal_words(-code)
    if code:
        return "failed", exit_code, "the script exited with code %d" % code
    return "completed", 0, ""


def _signal_words(number: "int") -> "str":
    words = {  # type: dict[int, str]
        signal.SIGSEGV: "it touched memory that is not its own",
        signal.SIGABRT: "it gave up by itself, often a failed assertion in native code",
        signal.SIGKILL: "by somebody, or by the system when memory ran out",
        signal.SIGBUS: "a mapped file was cut short or memory is broken",
        signal.SIGFPE: "a division by zero in native code",
        signal.SIGXFSZ: "it wrote a file beyond the limit on file size, which ulimit -f shows",
        signal.SIGXCPU: "it used more processor time than the limit, which ulimit -t shows",
        signal.SIGILL: "the processor does not know an instruction that the program was built with",
    }
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "signal %d" % number
    meaning = words.get(number)
    return "signal %d (%s%s)" % (number, name, ": " + meaning if meaning else "")
