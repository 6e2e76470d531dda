"""The first process of a container: starts the script, passes stops on, collects orphans, notes how the script ended.

The image's own Python runs this file, whatever its version (2.7 too), so it has neither annotations nor bytes paths.
What is to be done comes as one line of JSON on stdin, for what stands on a command line or in a container's settings
is seen and kept by others.
"""

import errno
import json
import os
import select
import signal
import sys
import time

try:
    from . import exec_errors, nested_runs
except (ImportError, SystemError, ValueError):  # this file is the program
    import exec_errors  # type: ignore[import-not-found, no-redef]
    import nested_runs  # type: ignore[import-not-found, no-redef]

MYPY = False
if MYPY:
    from typing import Any  # noqa: F401 - in comments

LEFTOVER_GRACE = 5.0
TOUCH_S = 20.0
GONE_S = 1.0
NODES_S = 5.0
_SAID = 65536


def main():
    # type: () -> None
    settings = json.loads(_line())
    _tell_all.asked = []  # type: ignore[attr-defined]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _tell_all)
    _own(settings, settings.get("before"))
    if settings.get("touch"):
        _touch(settings)
    early = list(_tell_all.asked)  # type: ignore[attr-defined]
    pid, trouble = _start(settings)
    lister = _list_packages(settings) if settings.get("packages") and not trouble else 0
    for number in early:
        _tell(number)
    note = {"trouble": trouble} if trouble else {"status": _watch(pid, settings)}  # type: dict[str, Any]
    _await(lister, TOUCH_S)  # it is no process that the script left
    note["left"] = _end_leftovers(float(settings["grace"]), str(settings["env"].get("HOLDFAST_RUN_UID")))
    note["told"] = _tell_all.asked  # type: ignore[attr-defined]
    note["out_of_memory"] = _out_of_memory()
    _own(settings, settings.get("after"))
    _write(settings["note"], note, settings.get("after"))
    _say_so(settings.get("ended"))
    status = note.get("status")
    if status is None:
        os._exit(127)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _line():
    # type: () -> str
    data = b""
    while not data.endswith(b"\n"):
        block = os.read(0, 65536)
        if not block:
            sys.exit("holdfast: no input on stdin")
        data += block
    return data.decode("ascii")


def _touch(settings):
    # type: (dict[str, Any]) -> None
    """Is the GPU reached from here? Whatever comes of it, the script is started."""
    try:
        heard, saying = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(heard)
                _become(settings, saying, settings["touch"])
            finally:
                os._exit(127)
        os.close(saying)
        output, is_late = _hear(heard, time.time() + TOUCH_S)
        os.close(heard)
        _leave_word(settings, "touch", {"said": output.decode("utf-8", "replace"), "late": is_late})
        if is_late:
            os.kill(pid, signal.SIGKILL)
        _await(pid, GONE_S)  # one that hangs in the driver is collected with the orphans, if ever
    except Exception:
        return


def _hear(source, until):
    # type: (int, float) -> tuple[bytes, bool]
    """The output, its end if it is long, and whether the time limit was reached."""
    output = b""
    while True:
        try:
            if not select.select([source], [], [], max(0.0, until - time.time()))[0]:
                return output, True
            block = os.read(source, 65536)
        except (OSError, select.error) as error:
            if error.args[0] != errno.EINTR:
                raise
            continue
        if not block:
            return output, False
        output = (output + block)[-_SAID:]


def _start(settings):
    # type: (dict[str, Any]) -> tuple[int, str]
    """The script's pid, and why it could not be started."""
    trouble, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(trouble)
            _become(settings, report, settings["argv"])
        except BaseException:
            os.write(report, str(sys.exc_info()[1]).encode("utf-8", "replace")[:4000])
        finally:
            os._exit(127)
    os.close(report)
    answer = os.read(trouble, 4096)
    os.close(trouble)
    return pid, answer.decode("utf-8", "replace")


def _list_packages(options):
    # type: (dict[str, Any]) -> int
    """Beside the script: what is installed for it goes to a file. Returns the pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _become(options, os.open(os.devnull, os.O_WRONLY), options["packages"])
        finally:
            os._exit(127)
    return pid


def _await(pid, seconds):
    # type: (int, float) -> None
    until = time.time() + seconds
    try:
        while pid and os.waitpid(pid, os.WNOHANG)[0] == 0 and time.time() < until:
            time.sleep(0.001)
    except OSError:
        return  # it was collected before


def _become(settings, report, argv):
    # type: (dict[str, Any], int, list[str]) -> None
    import fcntl

    is_script = argv is settings["argv"]  # who only touches the GPU says so to us, and nothing to the log
    fcntl.fcntl(report, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    os.setsid()
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, RuntimeError, ValueError):
            continue
    nothing = os.open(os.devnull, os.O_RDONLY)
    stream = settings.get("stream")
    output = report if not is_script else os.open(_name(stream), os.O_WRONLY) if stream else 1
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(1, 2)  # one stream, so that the order of the output is kept
    os.umask(settings["umask"])
    os.chdir(_name(settings["folder"]))
    env = dict(os.environ)
    for name, places in settings["first"].items():
        known = [env[_name(name)]] if env.get(_name(name)) else []
        if places:
            env[_name(name)] = os.pathsep.join([_name(folder) for folder in places] + known)
    env.update((_name(name), _name(value)) for name, value in settings["env"].items())
    os.environ.clear()
    os.environ.update(env)  # where the program is looked for
    exec_errors.replace_process([_name(word) for word in argv])


def _watch(pid, settings):
    # type: (int, dict[str, Any]) -> int
    """Wait for the script; an alarm checks the GPUs meanwhile, so that orphans are collected without delay."""
    nodes = _nodes() if settings.get("touch") else []
    if not nodes:
        return _wait_for(pid)
    signal.signal(signal.SIGALRM, lambda _number, _frame: _look_at(nodes, settings))
    signal.setitimer(signal.ITIMER_REAL, NODES_S, NODES_S)
    try:
        return _wait_for(pid)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _nodes():
    # type: () -> list[str]
    """The device nodes that can be opened. The kernel answers that without the driver, which may hang."""
    paths = ["/dev/" + name for name in sorted(os.listdir("/dev")) if name.startswith("nvidia")]
    return [path for path in paths if not os.path.isdir(path) and os.access(path, os.R_OK | os.W_OK)]


def _look_at(nodes, settings):
    # type: (list[str], dict[str, Any]) -> None
    """Report once that a device was taken away, as control groups do after ``systemctl daemon-reload``."""
    for node in nodes:
        if os.access(node, os.R_OK | os.W_OK):
            continue
        why = "it can no longer be opened" if os.path.exists(node) else "it no longer exists"
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            _leave_word(settings, "gpu-lost", {"node": node, "why": why, "time": time.time()})
        except Exception:
            return
        return


def _leave_word(settings, name, word):
    # type: (dict[str, Any], str, dict[str, Any]) -> None
    _write(os.path.join(os.path.dirname(settings["note"]), name), word, settings.get("after"))


def _wait_for(wanted):
    # type: (int) -> int
    """Until this child has ended, or any with 0."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            raise
        if not wanted or pid == wanted:
            return status


def _end_leftovers(grace, own):
    # type: (float, str) -> list[str]
    """A run ends when its script ends: what it left running is asked to go; what stays goes with the container.

    Runs that the script started in this container are no leftovers: the container stays until they have ended.
    """
    left = []  # type: list[str]
    until = 0.0
    while _others():
        family, has_runs = _family(own)
        if not until:
            until = time.time() + min(LEFTOVER_GRACE, grace)
            left = [command for command in map(_command, family) if command]
            _kill(family, signal.SIGTERM)
        elif time.time() > until and not has_runs:
            break
        elif time.time() > until:
            _kill(family, signal.SIGKILL)
        if has_runs and not family:
            _wait_for(0)
        else:
            time.sleep(0.01)
    return left


def _family(own):
    # type: (str) -> tuple[list[int], bool]
    """Every other process of the container that belongs to this run, and whether there are runs of their own."""
    if os.getpid() != 1:
        return [], False  # the machine's own processes are in sight (--pid host): who is whose cannot be said from here
    parents = {int(name): nested_runs.parent_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    apart = {pid for pid in parents if pid != 1 and nested_runs.is_other_run(pid, own)}
    pids = []
    for pid in parents:
        line = pid
        while line > 1 and line not in apart:
            line = parents.get(line, 0)
        if pid != 1 and line not in apart:
            pids.append(pid)
    return pids, bool(apart)


def _kill(pids, number):
    # type: (list[int], int) -> None
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def _others():
    # type: () -> bool
    """Whether anything else lives; all orphans are children of a container's first process."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        return True
    except OSError as error:
        return error.errno == errno.EINTR


def _command(pid):
    # type: (int) -> str
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as source:
            return source.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    except (IOError, OSError):
        return ""


def _tell_all(number, _frame):
    # type: (int, object) -> None
    """A stop is for everything in the container, as it is for everything below the runner elsewhere."""
    _tell_all.asked.append(number)  # type: ignore[attr-defined]
    _tell(number)


def _tell(number):
    # type: (int) -> None
    if os.getpid() != 1:
        return  # the machine's own processes are in sight (--pid host): who is whose cannot be said from here
    try:
        os.kill(-1, number)
    except OSError:
        return


def _own(settings, owner):
    # type: (dict[str, Any], Any) -> None
    """Change the owner of the run's folders; if the container's user is root, the caller gets them back at the end."""
    if not owner:
        return
    for root in settings["folders"]:
        for folder, folders, files in os.walk(_name(root)):
            for name in [folder] + [os.path.join(folder, each) for each in folders + files]:
                os.lchown(name, owner[0], owner[1])


def _out_of_memory():
    # type: () -> int
    """How many processes of the container the kernel has ended because memory ran out."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as source:
                fields = source.read().split()
        except (IOError, OSError):
            continue
        if "oom_kill" in fields:
            return int(fields[fields.index("oom_kill") + 1])
    return 0


def _write(path, note, owner):
    # type: (str, dict[str, Any], Any) -> None
    path = _name(path)
    with open(path + ".tmp", "w") as target:
        target.write(json.dumps(note))
        target.flush()
        os.fsync(target.fileno())
    if owner:
        os.chown(path + ".tmp", owner[0], owner[1])
    os.rename(path + ".tmp", path)


def _say_so(path):
    # type: (str | None) -> None
    """The end of the script is the end of the run; a container takes its time to go."""
    if not path:
        return
    try:
        os.write(os.open(_name(path), os.O_WRONLY | os.O_NONBLOCK), b"!")
    except OSError:
        return  # the reading end is closed


def _name(text):
    # type: (str) -> str
    """As the system wants it: text in Python 3, with the bytes that no text has; bytes in Python 2."""
    if sys.version_info[0] == 2:
        return _surrogates_undone(text.encode("utf-8"))
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def _surrogates_undone(text):
    # type: (bytes) -> Any
    """Python 2 knows no surrogateescape: it writes three bytes, which no UTF-8 has, for the one that was meant."""
    import re

    return re.sub(b"\xed[\xb2\xb3][\x80-\xbf]", _meant, text)


def _meant(match):
    # type: (Any) -> bytes
    _, high, low = bytearray(match.group())
    return bytes(bytearray([(high & 3) << 6 | low & 63]))


if __name__ == "__main__":
    main()
