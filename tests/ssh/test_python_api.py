"""The Python API and ``holdfast.remote`` on a machine over SSH, whose store and Python are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssh.conftest import Laptop

MODULE = """
import holdfast

@holdfast.remote(target="lab1")
def where(x):
    import os, socket
    with open(os.path.join(holdfast.outputs(), "note.txt"), "w") as target:
        target.write(socket.gethostname())
    return {"host": socket.gethostname(), "x": x, "pair": (x, None)}

@holdfast.remote(target="lab1")
def fails():
    raise OSError("there")
"""


def test_script_and_function_run_over_ssh_and_their_results_come_home(attached: Laptop) -> None:
    attached.script("import holdfast, socket\nholdfast.log('loss', 0.5)\nprint('this is', socket.gethostname())")
    attached.script(MODULE, "jobs.py")
    result = attached.python("""
import json
import holdfast, jobs
run = holdfast.submit("train.py", target="lab1")
found = {"lines": list(run.follow()), "loss": run.metrics["loss"].values.tolist(), "status": run.status}
call = jobs.where.submit(4)
found["result"] = call.result()
found["note"] = call.outputs["note.txt"].read_text()
found["map"] = [value["x"] for value in jobs.where.map([1, 2], concurrency=2)]
found["targets"] = [target.name for target in holdfast.targets()]
try:
    jobs.fails()
except holdfast.errors.RemoteError as error:
    found["error"] = [error.type_name, error.message, error.where]
print(json.dumps(found))
""")
    assert result.code == 0, result
    assert result.json == {
        "lines": ["this is gpu1"],
        "loss": [0.5],
        "status": "Completed",
        "result": {"host": "gpu1", "x": 4, "pair": [4, None]},
        "note": "gpu1",
        "map": [1, 2],
        "targets": ["docker", "lab1", "local", "podman"],
        "error": ["OSError", "there", "run 5 on lab1"],
    }
