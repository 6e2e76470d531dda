"""The Python API in programs with threads, after ``fork``, and in objects that are pickled."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk


def test_threads_submit_and_read_at_the_same_time(desk: Desk) -> None:
    desk.script("import sys, holdfast\nholdfast.log('seen', int(sys.argv[2]))\nprint(sys.argv[2])")
    result = desk.python("""
import json, threading
import holdfast
found, errors = {}, []
def work(number):
    try:
        run = holdfast.submit("train.py", "--number", number, target="local")
        lines = list(run.follow())
        found[number] = [lines, run.metrics["seen"].last, run.number, len(holdfast.runs()) > 0, run.status]
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([found, errors, sorted(run.number for run in holdfast.runs())]))
""")
    assert result.code == 0, result
    found, errors, numbers = result.json
    assert errors == []
    assert {key: row[:2] for key, row in found.items()} == {str(n): [[str(n)], n] for n in range(4)}
    assert all(row[3:] == [True, "Completed"] for row in found.values())
    assert numbers == [1, 2, 3, 4]


def test_run_is_used_after_fork_in_parent_and_child(desk: Desk) -> None:
    go = desk.project / "go"
    waiting = f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.01)"
    desk.script(f"import os, time\nprint('ready', flush=True)\n{waiting}\nprint('end')")
    result = desk.python("""
import json, os, pickle
import holdfast
run = holdfast.submit("train.py", target="local")
following = run.follow()
assert next(following) == "ready"  # a connection is open across the fork
same = pickle.loads(pickle.dumps(run))
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    second = holdfast.submit("train.py", target="local")
    open("go", "w").close()
    text = json.dumps([list(second.follow()), same.wait(60).status, second.status])
    os.write(writer, text.encode())
    os._exit(0)
os.close(writer)
mine = list(following)
with open(reader) as source:
    theirs = json.load(source)
status = os.waitpid(child, 0)[1]
print(json.dumps([mine, theirs, status, run.status, len(holdfast.runs())]))
""")
    assert result.code == 0, result
    assert result.json == [["end"], [["ready", "end"], "Completed", "Completed"], 0, "Completed", 2]


def test_program_with_thousands_of_open_files_submits(desk: Desk) -> None:
    """A process above descriptor 1023: git's answer and a target's further answers are waited for there too."""
    desk.script("print('ran')")
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run((*git, *words), cwd=desk.project, check=True)
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config/unwritable.compute").write_text("type: local\nroot: /proc/none\n")
    desk.trust("unwritable")
    result = desk.python("""
import json, os, resource
import holdfast
from holdfast import errors
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
run = holdfast.submit("train.py", target="local")
lines = list(run.follow())
try:
    holdfast.submit("train.py", target="unwritable")
except errors.HoldfastError as error:
    refusal = str(error)
print(json.dumps([lines, run.record["properties"]["GitCommit"], refusal]))
""")
    assert result.code == 0, result
    lines, commit, refusal = result.json
    assert (lines, len(commit)) == (["ran"], 40)
    assert "no store can be created on the target" in refusal
    assert "root: " in refusal
