"""The Python API on this machine: submit, follow, wait, cancel, the history, and what it costs to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = """
import sys
import holdfast
for step in range(3):
    holdfast.log("loss", 1 / (step + 1), step=step * 10)
    print("step", step, flush=True)
print("50%\\r100%")
holdfast.log("label", "good")
with open(holdfast.outputs() + "/model.txt", "w") as target:
    target.write("weights of " + " ".join(sys.argv[1:]))
"""


def test_submitted_script_is_followed_and_read_back(desk: Desk) -> None:
    desk.script(SCRIPT)
    result = desk.python("""
import json, sys
import holdfast
run = holdfast.submit("train.py", "--lr", 0.1, "--name", "a b", target="local", tags={"dataset": "v3"})
lines = list(run.follow())
loss = run.metrics["loss"]
model = run.outputs["model.txt"]
found = {
    "lines": lines, "again": list(run.follow()), "log": run.log(), "status": run.status, "number": run.number,
    "id": run.id, "target": run.target, "arguments": run.arguments, "script": run.script, "exit_code": run.exit_code,
    "done": run.is_done, "tags": run.tags, "duration": run.duration, "year": run.created.year,
    "steps": loss.steps.tolist(), "values": loss.values.tolist(),
    "ordered": bool((loss.times[1:] >= loss.times[:-1]).all()),
    "kind": type(loss.values).__module__, "last": [loss.last, loss.min, loss.max, loss.best, len(loss)],
    "label": run.metrics["label"].values, "names": sorted(run.metrics), "outputs": list(run.outputs),
    "model": model.read_text(), "same": holdfast.run("last") == run, "repr": repr(run),
}
run.tag(dataset=None, kept=True).note("the best one")
found["tagged"] = holdfast.run(1).tags
found["description"] = holdfast.run(run.id).record["description"]
sys.stdout.write(json.dumps(found))
""")
    assert result.code == 0, result
    found = result.json  # and nothing else was written to stdout
    assert found["lines"] == found["again"] == ["step 0", "step 1", "step 2", "50%\r100%"]
    assert found["log"] == "step 0\nstep 1\nstep 2\n50%\r100%\n"
    assert (found["status"], found["number"], found["target"], found["exit_code"]) == ("Completed", 1, "local", 0)
    assert found["arguments"] == ["--lr", "0.1", "--name", "a b"]
    assert (found["script"], found["done"], found["same"]) == ("train.py", True, True)
    assert found["repr"] == "<Run 1 train.py on local: Completed>"
    assert found["tags"] == {"dataset": "v3"}
    assert found["duration"] > 0
    assert found["year"] >= 2024
    assert (found["steps"], found["ordered"], found["kind"]) == ([0, 10, 20], True, "numpy")
    assert found["values"] == pytest.approx([1, 1 / 2, 1 / 3])
    assert found["last"] == pytest.approx([1 / 3, 1 / 3, 1, 1 / 3, 3])
    assert (found["label"], found["names"]) == (["good"], ["label", "loss"])
    assert (found["outputs"], found["model"]) == (["model.txt"], "weights of --lr 0.1 --name a b")
    assert (found["tagged"], found["description"]) == ({"kept": True}, "the best one")
    assert desk.record()["run_id"] == found["id"]  # the command line has the same history


def test_name_limit_of_results_and_capture_are_options_of_submit(desk: Desk) -> None:
    desk.script("import os\nopen('kept.bin', 'wb').write(bytes(5000))\nprint(os.environ.get('HOLDFAST_CAPTURE'))")
    result = desk.python("""
import holdfast
run = holdfast.submit("train.py", target="local", name="first", keep_limit=1000, capture=False).wait()
print(run.log().strip(), run.record["name"], run.record["outputs"]["outside"]["limit"])
try:
    holdfast.submit("train.py", name="")
except holdfast.errors.UsageError:
    print("refused")
""")
    assert result.text == "0 first 1000\nrefused\n", result


def test_run_that_goes_on_is_waited_for_up_to_a_time_and_cancelled(desk: Desk) -> None:
    desk.script("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    result = desk.python("""
import json, time
import holdfast
began = time.monotonic()
run = holdfast.submit("train.py", target="local")
first = next(run.follow())
early = time.monotonic() - began
try:
    run.wait(timeout=0.5)
except TimeoutError as error:
    waited = [type(error).__name__, error.what]
try:
    run.wait(timeout="soon")
except holdfast.errors.UsageError as error:
    refused = error.what
open_status = run.status
lines = run.follow()
next(lines)
import os
child = os.fork()
if child == 0:
    try:
        next(lines)
    except holdfast.errors.UsageError:
        os._exit(7)
    os._exit(1)
in_child = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
run.cancel()
list(lines)  # the iterator of this process goes on to the end
try:
    run.wait(check=True)
except holdfast.errors.RunFailedError as error:
    failed = str(error)
print(json.dumps([first, waited, open_status, run.status, failed, early, refused, in_child]))
""")
    assert result.code == 0, result
    first, waited, open_status, status, failed, early, refused, in_child = result.json
    assert in_child == 7
    assert refused == "timeout cannot be of the type str"
    assert (first, open_status, status) == ("ready", "Running", "Canceled")
    assert early < 60  # submit and follow did not wait for the end
    assert waited == ["StillRunningError", "the run did not end within 0.5 s; it continues"]
    assert "run 1 ended as Canceled" in failed


def test_history_is_selected_by_the_language_of_the_command_line(desk: Desk) -> None:
    desk.script("import sys, holdfast\nholdfast.log('accuracy', float(sys.argv[2]))")
    result = desk.python("""
import json
import holdfast
for accuracy, lr in ((0.5, 1), (0.95, "auto"), (0.92, 0.1)):
    holdfast.submit("train.py", "--accuracy", accuracy, "--lr", lr, target="local").wait(check=True)
runs = holdfast.runs(where="metrics.accuracy > 0.9", sort="-metrics.accuracy")
every = holdfast.runs()
frame, arrow, polars = every.to_pandas(), every.to_arrow(), every.to_polars()
try:
    holdfast.runs(where="acuracy > 1")
except holdfast.errors.UsageError as error:
    wrong = str(error.hint)
print(json.dumps({
    "best": [run.number for run in runs], "count": [len(runs), len(every), len(holdfast.runs(limit=2))],
    "slice": [run.number for run in every[:2]], "last": every[-1].number,
    "pandas": frame["metrics.accuracy"].tolist(), "lr": frame["params.lr"].tolist(),
    "kinds": [frame[name].dtype.kind for name in ("metrics.accuracy", "created_utc", "run_number")],
    "columns": [list(frame.columns) == arrow.column_names == polars.columns, len(frame)],
    "arrow": arrow["run_number"].to_pylist(), "polars": polars["status"].to_list(), "wrong": wrong,
    "none": len(holdfast.runs(where="accuracy > 2").to_pandas()),
}))
""")
    assert result.code == 0, result
    found = result.json
    assert found["best"] == [2, 3]
    assert found["count"] == [2, 3, 2]
    assert (found["slice"], found["last"]) == ([3, 2], 1)
    assert found["pandas"] == [0.92, 0.95, 0.5]
    assert found["lr"] == ["0.1", "auto", "1"]  # text where some of them are text
    assert found["kinds"] == ["f", "M", "i"]
    assert found["columns"] == [True, 3]
    assert (found["arrow"], found["polars"]) == ([3, 2, 1], ["Completed"] * 3)
    assert "accuracy" in found["wrong"]
    assert found["none"] == 0


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_table_without_its_package_is_an_error_that_names_the_command(desk: Desk, package: str) -> None:
    method = {"pyarrow": "to_arrow"}.get(package, f"to_{package}")
    result = desk.python(f"""
import sys
sys.modules["{package}"] = None  # as where it is not installed
import holdfast
try:
    holdfast.runs().{method}()
except ImportError as error:
    print(type(error).__name__, error, sep=": ")
""")
    what = f"MissingPackageError: this needs the package {package}, which is not installed here"
    answer = f"import of {package} halted; None in sys.modules"
    assert result.text == f"{what}\n  answer: {answer}\n  try: pip install {package}\n", result


LEAVES = """
import os, sys, holdfast
open(os.path.join(holdfast.outputs(), "model.pkl"), "w").close()
holdfast.log("loss", 1.0)
open(sys.argv[1]).read()  # a FIFO
"""


def test_unknown_metrics_and_outputs_are_errors_that_name_the_known_ones(desk: Desk) -> None:
    desk.script(LEAVES)
    gate = desk.home.parent / "gate"
    os.mkfifo(gate)
    result = desk.python(f"""
import holdfast
run = holdfast.submit("train.py", {str(gate)!r}, target="local")
def show(mapping, name):
    try:
        mapping[name]
    except KeyError as error:
        print(error)
show(run.outputs, "model.pkl")
open({str(gate)!r}, "w").close()
run.wait()
show(run.outputs, "model.pt")
show(run.metrics, "los")
""")
    assert result.text.splitlines() == [
        "'model.pkl; the run has not ended; its outputs are listed then'",
        "'model.pt; outputs of this run: model.pkl'",
        "'los; metrics of this run: loss'",
    ], result


def test_unconfirmed_target_is_an_error_that_names_the_command(desk: Desk) -> None:
    desk.script("print(1)")
    folder = desk.project / "aml_config"
    folder.mkdir()
    (folder / "box.compute").write_text("type: remote\naddress: box.example\nusername: ada\n")
    (folder / "bad.compute").write_text("type: [\n")
    result = desk.python("""
import json
import holdfast
def error_of(call):
    try:
        call()
    except holdfast.errors.HoldfastError as error:
        return [type(error).__name__, error.what, error.hint]
targets = {target.name: [target.kind, target.address, bool(target.problem)] for target in holdfast.targets()}
print(json.dumps([
    error_of(lambda: holdfast.submit("train.py", target="box")), error_of(lambda: holdfast.submit("none.py")),
    error_of(lambda: holdfast.run(7)), error_of(lambda: holdfast.submit("train.py", secrets=["TOKEN"])), targets,
]))
""")
    assert result.code == 0, result
    unconfirmed, no_script, no_run, no_secret, targets = result.json
    assert unconfirmed[0] == "ConfigError"
    assert unconfirmed[2] == "to allow this: holdfast trust box"
    assert no_script[:2] == ["UsageError", "no such script: 'none.py'"]
    assert no_run[:2] == ["UsageError", "this project has no run 7"]
    assert no_secret == [
        "UsageError",
        "the secret TOKEN is not set in this process",
        "set it in os.environ['TOKEN']",
    ]
    assert targets["box"] == ["remote", "box.example", False]
    assert targets["local"][2] is False
    assert targets["bad"][2] is True


REFUSED = [
    ("submit('train.py', tags={'bad\\x1b': 1})", "invalid tag name"),
    ("submit('train.py', tags={'': 1})", "invalid tag name"),
    ("submit('train.py', tags={1: 2})", "invalid tag name"),
    ("submit('train.py', tags={'a': {1: object()}})", "the value of the tag a is a dict"),
    ("submit('train.py', name=5)", "invalid run name"),
    ("submit('train.py', data=['x'])", "data cannot be of the type list"),
    ("submit('train.py', env=['A=1'])", "env cannot be of the type list"),
    ("submit('train.py', secrets='HOME')", "secrets cannot be of the type str"),
    ("submit('train.py', progress=5)", "progress cannot be of the type int"),
    ("submit('train.py', project=5)", "project cannot be of the type int"),
    ("submit('train.py', secrets=[3])", "an item of secrets cannot be of the type int"),
    ("submit('train.py', capture='no')", "capture cannot be of the type str"),
    ("submit('train.py', scalars=3)", "scalars cannot be of the type int"),
    ("submit('train.py', target=3)", "target cannot be of the type int"),
    ("submit('train.py', target='')", "target is empty"),
    ("submit('train.py', environment='projct')", "unknown environment: 'projct'"),
    ("submit('train.py', data={'d': 3})", "the data d cannot be of the type int"),
    ("submit('train.py', data={'d': {'path_on_target': 'here'}})", "the data d has no absolute path on the target"),
    ("submit(b'train.py')", "script cannot be of the type bytes"),
    ("submit('train.py', 'a\\0b')", "contains a NUL character"),
    ("submit('train.py', env={'A': 'x\\0'})", "contains a NUL character"),
    ("submit('train.py', '\\ud800')", "half of a surrogate pair"),
    ("submit('train.py', env={'A': '\\ud800'})", "half of a surrogate pair"),
    ("submit('train.py', notify='true \\ud800')", "half of a surrogate pair"),
    ("submit('train.py', data={'d': 'a\\0b'})", "no such file or folder"),
    ("submit('train.py', data={'d': '\\ud800'})", "no such file or folder"),
    ("submit('train.py', b'x')", "argument 1 of the script cannot be of the type bytes"),
    ("submit('train.py', env={'A=B': 'x'})", "'A=B' is not a valid variable name"),
    ("submit('train.py', env={'A': None})", "the variable A cannot be of the type NoneType"),
    ("runs(limit='x')", "limit must be a whole number"),
    ("runs(limit=2.5)", "limit must be a whole number"),
    ("runs(limit=-1)", "limit must be a whole number"),
    ("runs(project='/nonexistent')", "there is no such folder"),
    ("runs(where=3)", "where cannot be of the type int"),
    ("runs(sort=['loss'])", "sort cannot be of the type list"),
    ("run('last', project='/nonexistent')", "there is no such folder"),
    ("targets(project='/nonexistent')", "there is no such folder"),
    ("remote(target='local')(5)", "remote takes a function"),
    ("remote(target='local')(print).map([1], concurrency='2').send(None)", "concurrency must be a whole number"),
    ("remote(dict)", "remote takes a function"),
    ("remote('text'.upper.__self__)", "remote takes a function"),
    ("remote(generate)", "generate is a generator function"),
    ("remote(target='local')(later)", "later is an async function"),
]


def test_wrong_arguments_are_refused_before_anything_is_submitted(desk: Desk) -> None:
    desk.script("print(1)")
    calls = ", ".join(f"lambda: holdfast.{call}" for call, _ in REFUSED)
    result = desk.python(f"""
import json
import holdfast
def generate():
    yield 1
async def later():
    pass
def error_of(call):
    try:
        return f"no error: {{call()}}"
    except holdfast.errors.UsageError as error:
        return str(error)
    except Exception as error:
        return repr(error)
print(json.dumps([[error_of(call) for call in [{calls}]], len(holdfast.runs())]))
""")
    assert result.code == 0, result
    errors, runs = result.json
    assert [(call, text in error) for (call, text), error in zip(REFUSED, errors, strict=True)] == [
        (call, True) for call, _ in REFUSED
    ], errors
    assert runs == 0


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('EnvironmentVariables: {A: "x\\0"}', "the variable A contains a NUL character"),
        (
            'ArgumentVector: ["train.py", "\\ud800"]',
            "an argument contains a NUL character, or half of a surrogate pair",
        ),
        ('data: {x: "a\\0b"}', "data x: no such file or folder"),
    ],
)
def test_run_configuration_with_text_that_no_system_takes_is_refused(desk: Desk, line: str, what: str) -> None:
    desk.script("print(1)")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "odd.runconfig").write_text(f"Target: local\nFramework: Python\n{line}\n")
    script = () if line.startswith("Argument") else ("train.py",)
    result = desk.holdfast("submit", "-c", "odd", *script)
    assert (result.code in (2, 65), what in result.err) == (True, True), result
    assert desk.holdfast("runs").json == []


def test_uncaught_error_shows_its_hint_and_no_control_sequence_of_a_target(desk: Desk) -> None:
    desk.script("print(1)")
    result = desk.python("import holdfast\nholdfast.submit('train.py', secrets=['TOKEN'])")
    text = "UsageError: the secret TOKEN is not set in this process\n  try: set it in os.environ['TOKEN']\n"
    assert result.err.endswith(text), result
    result = desk.python("""
import holdfast
@holdfast.remote(target="local")
def fails():
    raise ValueError("\x1b]0;title\x07\u202ex\\nsecond line")
try:
    fails()
except holdfast.errors.RemoteError as error:
    assert error.message == "\x1b]0;title\x07\u202ex\\nsecond line"
    raise
""")
    assert result.err.endswith("RemoteError: run 1 on local: ValueError: \\x1b]0;title\\x07\\u202ex\nsecond line\n"), (
        result
    )
    assert "\x1b" not in result.err
    assert "\u202e" not in result.err


@pytest.mark.parametrize("call", ["submit('train.py', gpu=1)", "remote(gpu=1)"])
def test_unknown_keyword_is_a_type_error(call: str) -> None:
    program = f"import holdfast\ntry:\n    holdfast.{call}\nexcept TypeError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{call.partition('(')[0]}() got an unexpected keyword argument 'gpu'\n"


def test_store_that_cannot_be_used_is_an_error_of_the_documented_tree(desk: Desk) -> None:
    desk.script("print(1)")
    (desk.project / "file").write_text("")
    program = """
import holdfast
try:
    holdfast.submit("train.py", target="local")
except holdfast.errors.StoreError as error:
    print(error.code)
"""
    result = desk.python(program, env={"HOLDFAST_HOME": str(desk.project / "file")})
    assert result.text == "store-unusable\n", result


def test_progress_is_told_to_a_callback(desk: Desk) -> None:
    desk.script("print(1)")
    for number in range(3):
        (desk.project / f"data{number}").write_bytes(bytes(50_000_000))
    program = """
import json, time
import holdfast
told = []
def slow(progress):
    told.append(progress)
holdfast.submit("train.py", target="local", progress=slow).wait(check=True)
assert all(isinstance(one, holdfast.Progress) for one in told)
print("ok", sorted({one.phase for one in told} - {""}))
"""
    result = desk.python(program)
    assert result.code == 0, result
    assert result.text in ("ok ['storing']\n", "ok []\n")  # less than a second is not told


def test_bar_is_drawn_in_a_notebook_and_not_in_a_pipe(desk: Desk) -> None:
    stand_in = """
shown = []
class Handle:
    def update(self, bundle, raw):
        shown.append(bundle["text/html"])
def display(bundle, raw, display_id):
    shown.append(bundle["text/html"])
    return Handle()
"""
    desk.script(stand_in, "IPython/display.py")
    desk.script("", "IPython/__init__.py")
    desk.script("", "ipykernel.py")
    result = desk.python("""
import sys
from holdfast.api.progress import Bar, Progress
Bar().show(Progress("sending", 1, 4, "a < b"))
import ipykernel
from IPython.display import shown
bar = Bar()
bar.show(Progress("sending", 1, 4, "a < b"))
bar.show(Progress("", 0, None, ""))
print(shown)
""")
    assert result.text == "['<progress value=\"1\" max=\"4\"></progress> a &lt; b', '']\n", result
    assert result.err == ""


def test_import_loads_nothing_of_the_client() -> None:
    program = "import sys; before = set(sys.modules); import holdfast; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['__future__', 'holdfast']\n"


def test_every_public_name_is_there_and_documented() -> None:
    program = """
import inspect, json
import holdfast
missing = []
for name in holdfast.__all__:
    value = getattr(holdfast, name)
    if not name.startswith("__") and not inspect.getdoc(value):
        missing.append(name)
    if inspect.isclass(value):
        members = [(inner, member) for inner, member in vars(value).items() if not inner.startswith("_")]
        members = [(inner, member) for inner, member in members if callable(member) or isinstance(member, property)]
        missing += [f"{name}.{inner}" for inner, member in members if not inspect.getdoc(member)]
print(json.dumps([missing, sorted(dir(holdfast)) == sorted(holdfast.__all__)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], True]


def test_script_of_a_run_submits_where_holdfast_is_installed(desk: Desk) -> None:
    desk.script("print('inner')", "inner.py")
    desk.script("""
import holdfast
run = holdfast.submit("inner.py", target="local").wait(check=True)
print("logged", run.log(), run.record["parent_run_id"] == holdfast.run_id())
""")
    result = desk.submit("--python", sys.executable, "train.py")
    assert result.code == 0, result
    assert "logged inner\n True" in result.text
