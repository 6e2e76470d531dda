"""Starting an attempt through another program: a batch queue or a spooler runs a job later, perhaps on another node.

``submit`` claims the attempt here and hands a job to the queue's own command on its standard input, as ``sbatch``,
``qsub`` and ``at`` read it. ``main`` is what that job runs: it starts the attempt as ``launch`` does, and stays until
the attempt has ended, as a queue takes the end of a job's process for the end of the job.
"""

import os
import shlex
import subprocess
import sys
import tempfile

from .. import wire
from ..decoding import as_bytes, readable
from ..plan import read_plan
from ..signals import signal
from ..store import layout, run_files
from ..store.files import fsync_path, temporary_beside, write_synced
from ..store.remove_tree import remove_tree
from . import control, launch, run_secrets, waiting

MYPY = False
if MYPY:
    from ..plan import Plan

COMMAND_S = 60.0  # for a command of the queue
_MOST_OUTPUT = 1 << 20
_LONGEST_NAME = 200  # of a job
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from runner.run import queued; queued.main(sys.argv[2:])"


class CannotQueue(ValueError):
    """The queue's command refused the job, or could not be run."""


def submit(
    home: "bytes",
    runner: "str",
    plan: "Plan",
    secrets: "dict[str, object]",
    umask: "int",
    argv: "list[str]",
) -> "tuple[str, str]":
    """Hand an attempt to a queue; its state, and what the queue calls the job.

    ``already``: an earlier start did so, or the attempt was closed before. A start that was cut off before the queue
    had answered is made again, with a new key. Of two jobs the older one cannot open the secrets, and ends.
    """
    attempt = launch.attempt_path(home, plan.uid, plan.attempt)
    if not _claim_name(attempt, plan):
        noted = waiting.job(attempt)
        if noted or not waiting.is_waiting(attempt):
            return "already", noted
    key = os.urandom(waiting.KEY_SIZE)
    waiting.keep_secrets(attempt, key, secrets)
    arguments = [home, *map(as_bytes, (runner, plan.uid, plan.attempt, umask))]
    code, out, err = command(argv, _script(layout.runner(home, runner.encode("ascii")), arguments, key))
    job = readable(out).split("\n")[0].strip()
    if code != 0 or len(job.split()) != 1 or len(job) > _LONGEST_NAME:
        waiting.drop_secrets(attempt)
        raise CannotQueue(_refusal(argv[0], code, job, readable(err).strip()[:2000]))
    waiting.note_job(attempt, job)
    return "queued", job


def _refusal(program: "str", code: "int", job: "str", err: "str") -> "str":
    if code != 0:
        return "%s ended with code %d: %s" % (program, code, err or job[:2000])
    printed = "printed %s" % ascii(job[:200]) if job else "printed nothing"
    return "%s %s, and not the name of a job, which is one word%s" % (program, printed, ": " + err if err else "")


def command(argv: "list[str]", stdin: "bytes" = b"") -> "tuple[int, bytes, bytes]":
    """Run a command of the queue: its exit code and what it printed."""
    try:
        # Files and not pipes: a process that the command leaves running may keep its output open.
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            source.write(stdin)
            source.seek(0)
            process = subprocess.Popen(argv, stdin=source, stdout=out, stderr=err, start_new_session=True)
            try:
                code = process.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise CannotQueue("%s did not end within %g s" % (argv[0], COMMAND_S)) from None
            out.seek(0)
            err.seek(0)
            return code, out.read(_MOST_OUTPUT), err.read(_MOST_OUTPUT)
    except OSError as error:
        raise CannotQueue("%s cannot be run: %s" % (argv[0], error)) from error


def main(arguments: "list[str]") -> "None":
    """The job. Its key comes on standard input, where neither a list of processes nor an environment shows it."""
    home, runner, umask = os.fsencode(arguments[0]), arguments[1], int(arguments[4])
    key = bytes.fromhex(sys.stdin.readline().strip())
    attempt = launch.attempt_path(home, arguments[2], arguments[3])
    os.umask(0o077)
    try:
        secrets = waiting.open_secrets(attempt, key)
    except waiting.Unreadable as error:
        sys.stderr.write("holdfast: not started: %s\n" % error)  # canceled, or handed over again with another key
        return
    lock = run_files.hold(attempt)  # first: who looks in between finds it alive
    if not waiting.claim(attempt):
        return  # canceled meanwhile
    waiting.drop_secrets(attempt)
    plan = read_plan(attempt)
    if plan is None:
        run_files.close(attempt, "failed", launch.CANNOT_START, "its plan.json cannot be read")
        return
    launch.begin(home, runner, attempt, plan, run_secrets.told(secrets), umask, lock)
    del secrets, key
    signal.signal(signal.SIGTERM, lambda *_: control.stop(attempt, "the queue"))
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _claim_name(attempt: "bytes", plan: "Plan") -> "bool":
    """Make the attempt's folder, as ``launch`` does, but waiting; False where it is there already."""
    beside = temporary_beside(attempt)
    os.makedirs(beside, 0o700)
    try:
        write_synced(layout.plan(beside), wire.dumps(plan.source))
        run_files.make_reserve(beside)
        os.mkdir(layout.metrics(beside), 0o700)
        waiting.put(beside)
        os.rename(beside, attempt)
    except OSError:
        remove_tree(beside)
        if not os.path.isdir(attempt):
            raise
        return False
    fsync_path(os.path.dirname(attempt))
    return True


def _script(folder: "bytes", arguments: "list[bytes]", key: "bytes") -> "bytes":
    """The job as a shell script. ``printf`` is built into the shell: the key is in no command line."""
    argv = [os.fsencode(sys.executable), b"-I", b"-S", b"-c", _PROGRAM.encode("ascii"), folder, *arguments]
    line = " ".join(shlex.quote(os.fsdecode(word)) for word in argv)
    return os.fsencode("#!/bin/sh\nprintf '%%s\\n' %s | %s\n" % (key.hex(), line))
