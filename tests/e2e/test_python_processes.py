"""The Python API in programs with threads, after ``fork``, and in objects that are pickled."""

from __future__ import annotations

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
