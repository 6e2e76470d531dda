"""``holdfast.remote`` on this machine: how functions and arguments travel, and how results come back."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lab.pythons import OLDEST, python_of

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

MODULE = """
import holdfast
FACTOR = 3

@holdfast.remote(target="local")
def scale(x, by=FACTOR):
    print("scaling", x)
    return {"value": x * by, "pair": (x, [None, True, 1.5, "ä", b"b"]), 7: float("inf")}

@holdfast.remote
def double(x):
    return 2 * x

@holdfast.remote(target="local")
def arrays(n):
    import numpy as np
    import pandas as pd
    import polars as pl
    return [np.eye(n), np.float32(0.5), pd.DataFrame({"a": range(n)}), pl.DataFrame({"b": range(n)})]

@holdfast.remote
def nested(x):
    return sum(scale.map([x, x + 1]) and [item["value"] for item in scale.map([x, x + 1])])

@holdfast.remote(target="local", allow_pickle=True)
def pickled():
    return {1, 2}

@holdfast.remote(target="local")
def unreturnable():
    return {"sets": [{1, 2}]}

@holdfast.remote(target="local")
def fails(x):
    raise LookupError(f"no {x}")

@holdfast.remote(target="local")
def dies():
    import os
    os._exit(9)

@holdfast.remote(target="local")
def vanishes():
    import os
    os._exit(0)

@holdfast.remote(target="local")
def leaves_a_folder():
    import os
    os.makedirs("outputs/holdfast-result/result.json")
    os._exit(0)
"""


def test_call_that_left_no_result_is_told_as_one(desk: Desk) -> None:
    desk.script(MODULE, "src/jobs.py")
    result = desk.python("""
import sys
sys.path.insert(0, "src")
import jobs, json
from holdfast.errors import RemoteError
told = []
for function in (jobs.vanishes, jobs.leaves_a_folder):
    try:
        function()
    except RemoteError as error:
        told.append(error.what)
print(json.dumps(told))
""")
    assert result.code == 0, result
    assert result.json == ["the function left no result"] * 2


def test_function_of_a_module_returns_values_arrays_and_frames(desk: Desk) -> None:
    desk.script(MODULE, "src/jobs.py")
    result = desk.python("""
import sys
sys.path.insert(0, "src")
import holdfast, jobs
run = jobs.scale.submit(2, by=5)
assert run.result() == {"value": 10, "pair": (2, [None, True, 1.5, "ä", b"b"]), 7: float("inf")}, run.result()
assert run.script == ".holdfast-call/scale.py" and run.arguments == ["--x", "2", "--by", "5"], run.arguments
assert run.log() == "scaling 2\\n"
assert holdfast.runs(where="params.by = 5")[0] == run
eye, scalar, pandas, polars = jobs.arrays(2)
assert eye.tolist() == [[1, 0], [0, 1]] and str(scalar.dtype) == "float32" and scalar == 0.5
assert type(pandas).__module__.startswith("pandas") and pandas["a"].tolist() == [0, 1]
assert type(polars).__module__.startswith("polars") and polars["b"].to_list() == [0, 1]
assert jobs.double.local(4) == 8
assert jobs.double("a\\0\\ud800") == "a\\0\\ud800" * 2  # text that no system passes as an argument
assert repr(jobs.double) == "<RemoteFunction double>" and repr(jobs.scale) == "<RemoteFunction scale on local>"
print("ok", file=sys.stderr)
""")
    assert (result.code, result.out, result.err.splitlines()[-1:]) == (0, b"", ["ok"]), result
    assert not (desk.project / ".holdfast-call").exists()  # nothing is written to the project


def test_what_goes_wrong_in_a_call_comes_back_as_text(desk: Desk) -> None:
    desk.script(MODULE, "jobs.py")
    result = desk.python("""
import json
import holdfast, jobs
def error_of(call):
    try:
        call()
    except holdfast.errors.HoldfastError as error:
        return error
raised = error_of(lambda: jobs.fails("luck"))
kept = error_of(jobs.unreturnable)
run = jobs.pickled.submit()
assert run.result() == {1, 2}
as_other = holdfast.run(run.id)
print(json.dumps({
    "raised": [type(raised).__name__, raised.type_name, raised.message, raised.where, raised.traceback],
    "kept": kept.message, "pickled": error_of(as_other.result).hint, "died": str(error_of(jobs.dies)),
    "allowed": sorted(as_other.result(allow_pickle=True)),
    "bad call": str(error_of(lambda: jobs.fails())), "nested": jobs.nested(1),
}))
""")
    assert result.code == 0, result
    found = result.json
    assert found["raised"][:4] == ["RemoteError", "LookupError", "no luck", "run 1 on local"]
    assert found["raised"][4].startswith("Traceback")
    assert "remote_call" not in found["raised"][4]
    assert "in fails" in found["raised"][4]
    assert found["kept"].startswith("result['sets'][0] is a builtins.set, which cannot be returned")
    assert found["pickled"] == "result(allow_pickle=True), if you trust the target"
    assert found["allowed"] == [1, 2]
    assert "ended as Failed" in found["died"]
    assert found["bad call"].startswith("fails: missing a required argument")
    assert found["nested"] == 9  # on the target a remote function runs in place


def test_function_of_the_main_script_and_closures_travel_by_value(desk: Desk) -> None:
    result = desk.python("""
import holdfast
offset = 10

class Point:
    def __init__(self, x):
        self.x = x

def maker(factor):
    @holdfast.remote(target="local")
    def inner(point):
        return point.x * factor + offset
    return inner

print(maker(3)(Point(2)), holdfast.remote(lambda: 5)())
""")
    assert result.text == "16 5\n", result


INSIDE_EACH_OTHER = """
import multiprocessing, os, sys
import holdfast
sys.path.append({outside!r})
import elsewhere, jobs

SCALE = 10

class Point:
    x = 4

@holdfast.remote(target="local")
def evaluate(seed):
    if seed > 100:
        raise LookupError(seed)
    return seed * 2 + SCALE - 10

@holdfast.remote(target="local")
def factorial(n):
    return n * factorial(n - 1) if n > 1 else 1

@holdfast.remote(target="local")
def outer(n):
    kept = [type(value).__name__ for value in evaluate.map([1, 101], return_errors=True)]
    return [evaluate(n) + sum(evaluate.map(range(3))), kept, factorial(4), jobs.double(n), evaluate.local(1)]

@holdfast.remote(target="local")
def in_process(n):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(jobs.double, [n])

def make():
    @holdfast.remote(target="local")
    def inner(n):
        return n + 1
    @holdfast.remote(target="local")
    def around(n):
        return inner(n) + sum(inner.map([n]))
    return around

if __name__ == "__main__":
    assert outer(2) == [10, ["int", "LookupError"], 24, 4, 2], outer(2)
    assert make()(3) == 8
    assert jobs.apply(evaluate, 3) == 6 and jobs.apply(jobs.double, 3) == 6  # as an argument
    assert jobs.of(Point()) == 4 and jobs.of([Point()][0]) == 4
    assert elsewhere.outer(3) == 12
    assert in_process(3) == [6]
    print("ok")
"""


def test_remote_functions_run_in_place_inside_each_other(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "elsewhere.py").write_text("""
import holdfast
def helper(n):
    return n * 3
@holdfast.remote(target="local")
def evaluate(n):
    return helper(n)
@holdfast.remote(target="local")
def outer(n):
    return evaluate(n) + n
""")
    desk.script(MODULE + APPLY, "jobs.py")
    result = desk.python(INSIDE_EACH_OTHER.replace("{outside!r}", repr(str(outside))))
    assert result.text == "ok\n", result


APPLY = """
@holdfast.remote(target="local")
def apply(function, value):
    return function(value)

@holdfast.remote(target="local")
def of(point):
    return point.x
"""
IN_POOLS = """
import multiprocessing, sys
import holdfast
WITHOUT

class Point:
    x = 4

def helper(point):
    return point.x ** 2

@holdfast.remote(target="local")
def evaluate(point):
    return helper(point)

@holdfast.remote(target="local")
def outer(point):
    return evaluate(point) + 1

def work(_):
    return outer(Point())

if __name__ == "__main__":
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(pool.map(work, [0]))
"""


@pytest.mark.parametrize("without", ["", "sys.modules['cloudpickle'] = None"], ids=["cloudpickle", "none"])
def test_workers_of_every_kind_of_pool_call_remote_functions_of_the_main_script(desk: Desk, without: str) -> None:
    result = desk.python(IN_POOLS.replace("WITHOUT", without))
    assert result.text == "[17]\n" * 3, result


def test_main_script_travels_by_reference_without_cloudpickle(desk: Desk) -> None:
    program = """
import sys
sys.modules["cloudpickle"] = None  # as where it is not installed
import holdfast

class Point:
    x = 4

@holdfast.remote(target="local")
def double(point):
    return point.x * 2

def local():
    return holdfast.remote(target="local")(lambda: 1)

%sif __name__ == "__main__":
    print(double(Point()))
    try:
        local()()
    except holdfast.errors.CannotSendError as error:
        print(error.what, error.hint)
"""
    result = desk.python(program % "")
    assert result.code == 0, result
    lines = result.text.splitlines()
    assert lines[0] == "8"
    assert lines[1].startswith("local.<locals>.<lambda> is not a function of a file in the project")
    assert lines[1].endswith("or: pip install cloudpickle")
    unguarded = desk.python(program % "double(Point())\n")
    assert 'put the calls under: if __name__ == "__main__":' in unguarded.err


UNSENDABLE = {
    "import threading\nlock = threading.Lock()\n@holdfast.remote\ndef f():\n    return lock\nf()": (
        "f cannot be sent: it uses the global variable lock (_thread.lock) that cannot be pickled"
    ),
    "def outer():\n    log = open('log.txt', 'w')\n    return holdfast.remote(lambda: log.write(''))\nouter()()": (
        "outer.<locals>.<lambda> cannot be sent: it uses the variable log (_io.TextIOWrapper) that cannot be pickled"
    ),
    "import threading\n@holdfast.remote\ndef f(a, config):\n    pass\nf(1, config={'x': [threading.Lock()]})": (
        "the argument config['x'][0] (_thread.lock) of f cannot be sent"
    ),
    "import threading\nlock = threading.Lock()\n@holdfast.remote\ndef f():\n    return lock\n"
    "@holdfast.remote\ndef g():\n    return f()\ng()": (
        "g cannot be sent: it uses the global variable f, which uses the global variable lock (_thread.lock)"
    ),
}


@pytest.mark.parametrize("program", UNSENDABLE, ids=["global", "closure", "argument", "other function"])
def test_what_cannot_be_sent_is_named(desk: Desk, program: str) -> None:
    result = desk.python("import holdfast\n" + program)
    assert result.code == 1, result
    assert UNSENDABLE[program] in result.err
    assert "CannotSendError" in result.err
    assert not desk.home.exists() or not list((desk.home / "runs").glob("*"))  # nothing was submitted


def test_function_typed_into_an_interpreter_without_source_is_sent(desk: Desk) -> None:
    program = "import holdfast\n@holdfast.remote(target='local')\ndef f(x):\n    return x + 1\n\nprint(f(1))\n"
    result = desk.holdfast("-c", program, command=sys.executable)
    assert result.text == "2\n", result


def test_function_may_have_the_name_of_a_module(desk: Desk) -> None:
    names = ("types", "json", "re", "absent_module")
    functions = "\n".join(f"@holdfast.remote(target='local')\ndef {name}(x):\n    return x + 1" for name in names)
    result = desk.python(f"""
import holdfast
{functions}
@holdfast.remote(target="local")
def numpy_missing():
    import numpy_missing
print([types(1), json(2), re(3), absent_module(4)])
try:
    numpy_missing()
except holdfast.errors.RemoteError as error:
    print(error.type_name)
""")
    assert result.text == "[2, 3, 4, 5]\nModuleNotFoundError\n", result


def test_function_of_the_project_or_of_python_runs_on_the_oldest_python(desk: Desk) -> None:
    desk.script(MODULE, "jobs.py")
    result = desk.python(f"""
import holdfast, jobs, math, posixpath
old = holdfast.remote(target="local", python={python_of(OLDEST)!r})
print(old(jobs.double._function)(3), old(jobs.nested._function)(1))
print(old(posixpath.join)("a", "b"), old(math.gcd)(4, 6), old(sum)([1, 2]))
""")
    assert result.text == "6 9\na/b 2 3\n", result


RETURNED = """
import holdfast

def returns(value):
    try:
        return holdfast.remote(target="local")(lambda: eval(value))()
    except holdfast.errors.RemoteError as error:
        return error.message

def raises(name):
    def fails():
        raise eval(name)("b")
    try:
        holdfast.remote(target="local")(fails)()
    except holdfast.errors.RunFailedError as error:
        return type(error).__name__ + " " + getattr(error, "type_name", "")

print(returns("10**4001"))
print(returns("__import__('numpy').ma.masked_array([1], [True])"))
print(returns("__import__('numpy').array([{}])"))
print(returns("-10**3900") == -10**3900)
print(raises("BaseException"))
print(raises("SystemExit"))
"""


def test_value_without_a_form_and_exception_of_any_kind_are_told(desk: Desk) -> None:
    result = desk.python(RETURNED)
    assert result.code == 0, result
    large, masked, objects, *rest = result.text.splitlines()
    assert objects == "result is an array of Python objects: return it as a list, or with another dtype"
    assert large == "result is a number of more than 4000 digits: return it as text"
    assert masked.startswith("result is a numpy.ma")
    assert masked.endswith("or use @holdfast.remote(allow_pickle=True)")
    assert rest == ["True", "RemoteError BaseException", "RunFailedError "]


MANY = """
import os, sys
import holdfast

def manifests(opened):
    return sum("outputs.jsonl" in os.fsdecode(path) for path in opened if isinstance(path, (str, bytes)))

@holdfast.remote(target="local")
def arrays(n):
    import numpy as np
    return [np.full(2, at) for at in range(n)]

if __name__ == "__main__":
    run = arrays.submit(300).wait()
    opened = []
    sys.addaudithook(lambda event, details: opened.append(details[0]) if event == "open" else None)
    values = run.result()
    assert [int(value[1]) for value in values] == list(range(300))
    print(manifests(opened))
    del opened[:]
    sizes = [run.outputs[name].stat().st_size for name in run.outputs]
    print(len(sizes), manifests(opened))
"""


def test_list_of_outputs_is_read_once_for_thousands_of_files(desk: Desk) -> None:
    desk.script(MANY, "jobs.py")
    result = desk.python("import runpy; runpy.run_path('jobs.py', run_name='__main__')")
    assert result.code == 0, result
    of_result, of_outputs = result.text.splitlines()
    assert int(of_result) <= 5, result
    assert of_outputs.split()[0] == "301"
    assert int(of_outputs.split()[1]) <= 5, result


DISHONEST = """
import atexit, json, os
import holdfast

def leaves(content):
    def write():
        with open("outputs/holdfast-result/result.json", "wb") as target:
            target.write(content) if content else target.truncate((1 << 30) + 1)
    atexit.register(write)

def told(content):
    try:
        holdfast.remote(target="local")(leaves)(content)
    except holdfast.errors.HoldfastError as error:
        return str(error)

long = json.dumps({"v": 1, "error": {"type": "T" * 10**6, "message": "m" * 10**6, "traceback": "t" * 10**7}}).encode()
print(json.dumps([told(b"{"), told(b'{"v": 2}'), told(b""), len(told(long))]))
"""


def test_result_that_a_target_changed_is_told_with_what_was_found(desk: Desk) -> None:
    result = desk.python(DISHONEST)
    assert result.code == 0, result
    broken, newer, large, length = result.json
    assert "the target sent a malformed result\n  answer: result.json is not JSON: Expecting property name" in broken
    assert "\n  try: holdfast logs -r 1 shows what the run printed" in broken
    assert "answer: result.json is of another version" in newer
    assert f"answer: result.json has {(1 << 30) + 1} bytes; at most {1 << 30} are read" in large
    assert length < 150_000


def test_map_yields_in_order_with_bounded_concurrency(desk: Desk) -> None:
    desk.script(
        """
import holdfast, os, time

@holdfast.remote(target="local")
def wait(number, folder):
    mine = os.path.join(folder, "open-%d" % number)
    open(mine, "w").close()
    seen = len(os.listdir(folder))
    if number == 0:  # the first one ends after another: results still come in order
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(folder + "-done", "1")) and time.monotonic() < deadline:
            time.sleep(0.01)
    open(os.path.join(folder + "-done", str(number)), "w").close()
    os.unlink(mine)
    if number == 3:
        raise ValueError("three")
    return [number, seen]
""",
        "jobs.py",
    )
    result = desk.python("""
import itertools, json, os
import holdfast, jobs
folder = os.path.abspath("open")
os.makedirs(folder); os.makedirs(folder + "-done")
found = list(jobs.wait.map(range(5), itertools.repeat(folder), concurrency=2, return_errors=True))
assert type(found[3]).__name__ == "RemoteError", found
first = []
try:
    for value in jobs.wait.map(itertools.count(2), itertools.repeat(folder), concurrency=1):
        first.append(value[0])
except holdfast.errors.RemoteError as error:
    first.append(error.message)
print(json.dumps([[value for at, value in enumerate(found) if at != 3], first]))
""")
    assert result.code == 0, result
    found, first = result.json
    assert [number for number, _ in found] == [0, 1, 2, 4]
    assert max(seen for _, seen in found) <= 2
    assert first == [2, "three"]


def test_result_of_a_hostile_target_runs_nothing(desk: Desk) -> None:
    """The script takes the place of the call: it writes what it likes as its result."""
    made = desk.script(
        """
import os, pickle, sys
class Evil:
    def __reduce__(self):
        return (open, (sys.argv[1], "w"))
folder = "made"
os.makedirs(folder)
import numpy
numpy.save(os.path.join(folder, "result-1.npy"), numpy.array([Evil()], dtype=object), allow_pickle=True)
numpy.save(os.path.join(folder, "good.npy"), numpy.eye(2))
import pyarrow
twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
with pyarrow.OSFile(os.path.join(folder, "twice.arrow"), "wb") as sink, pyarrow.ipc.new_file(sink, twice.schema) as out:
    out.write_table(twice)
none = pyarrow.table({str(number): pyarrow.nulls(2**31 - 1) for number in range(500)})
with pyarrow.OSFile(os.path.join(folder, "none.arrow"), "wb") as sink, pyarrow.ipc.new_file(sink, none.schema) as out:
    out.write_table(none)
import polars, pyarrow.compute
zeros = pyarrow.table({"a": numpy.zeros(10_000_000)})  # 80 MB in a few kB
options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
with pyarrow.OSFile(os.path.join(folder, "zstd.arrow"), "wb") as sink:
    with pyarrow.ipc.new_file(sink, zeros.schema, options=options) as out:
        out.write_table(zeros)
texts = pyarrow.table({"a": pyarrow.array(["x" * 100] * 9).dictionary_encode()})
with pyarrow.OSFile(os.path.join(folder, "lz4.arrow"), "wb") as sink:
    with pyarrow.ipc.new_file(sink, texts.schema, options=pyarrow.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(texts)
polars.DataFrame({"a": [0] * 10_000_000}).write_ipc(os.path.join(folder, "polars.arrow"), compression="zstd")
lists = pyarrow.ListArray.from_arrays([0, 2**31 - 2], pyarrow.nulls(2**31 - 2))
views = pyarrow.table({"a": pyarrow.array(["x" * 1000] * 9, type=pyarrow.string_view())})
for name, table in (("lists", pyarrow.table({"a": lists})), ("views", views)):
    with pyarrow.OSFile(os.path.join(folder, name + ".arrow"), "wb") as sink:
        with pyarrow.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
numpy.savez(os.path.join(folder, "zip.npz"), numpy.eye(2))
os.rename(os.path.join(folder, "zip.npz"), os.path.join(folder, "zip.npy"))
head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }".ljust(117) + chr(10)
for name, data in (
    ("empty.npy", b""),
    ("pk.npy", b"PK\\3\\4" + bytes(60)),
    ("huge.npy", b"\\x93NUMPY\\1\\0\\x76\\0" + (head % 10**15).encode()),
    ("empty.arrow", b""),
):
    with open(os.path.join(folder, name), "wb") as target:
        target.write(data)
pickle.dump(Evil(), open(os.path.join(folder, "result.pickle"), "wb"))
""",
        "make.py",
    )
    executed = desk.project / "executed"
    subprocess.run([sys.executable, made, executed], cwd=desk.project, check=True)
    desk.script(
        """
import os, shutil, sys
folder = os.path.join(os.environ["HOLDFAST_OUTPUTS"], "holdfast-result")
shutil.copytree("made", folder)
with open(os.path.join(folder, "result.json"), "w") as out:
    out.write(sys.argv[1])
"""
    )
    hostile = [
        {"v": 1, "pickle": "result.pickle"},
        {"v": 1, "value": {"$type": "array", "npy": "result-1.npy"}},
        {"v": 1, "value": {"$type": "array", "npy": "../../../../../etc/passwd"}},
        *({"v": 1, "value": {"$type": "array", "npy": f"{name}.npy"}} for name in ("empty", "pk", "zip", "huge")),
        {"v": 1, "value": {"$type": "scalar", "npy": "zip.npy"}},
        {"v": 1, "value": {"$type": "pandas", "arrow": "missing.arrow"}},
        {"v": 1, "value": {"$type": "pandas", "arrow": "none.arrow"}},  # terabytes of nothing
        {"v": 1, "value": {"$type": "pyarrow", "arrow": "empty.arrow"}},
        {"v": 1, "value": {"$type": "polars", "arrow": "empty.arrow"}},
        {"v": 1, "value": {"$type": "polars", "arrow": "twice.arrow"}},  # the library panics
        *({"v": 1, "value": {"$type": kind, "arrow": "zstd.arrow"}} for kind in ("pandas", "polars", "pyarrow")),
        *({"v": 1, "value": {"$type": "pyarrow", "arrow": f"{name}.arrow"}} for name in ("lz4", "polars")),
        *({"v": 1, "value": {"$type": "pandas", "arrow": f"{name}.arrow"}} for name in ("lists", "views")),
        {"v": 1, "value": [{"$type": "array", "npy": "good.npy"}] * 2},
        {"v": 1, "value": {"$type": "os.system", "arrow": "x"}},
        {"v": 1, "value": {"$type": "dict", "pairs": [[[], 1]]}},
        {"v": 2},
        {"v": 1, "error": 5},
        {"v": 1},
        [],
    ]
    result = desk.python(
        """
import json, sys
import holdfast
names = []
for document in json.loads(sys.argv[1]):
    run = holdfast.submit("train.py", json.dumps(document), target="local")
    try:
        names.append(repr(run.result()))
    except Exception as error:
        names.append(type(error).__name__)
print(json.dumps(names))
""",
        json.dumps(hostile),
    )
    assert result.code == 0, result
    assert result.json == ["UsageError", *["MalformedAnswerError"] * (len(hostile) - 1)]
    assert not executed.exists()
