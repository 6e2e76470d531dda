"""``--require-gpu``: a run that does not touch its GPU does not burn hours on the processor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from conftest import eventually
from fakenvml import GPU
from holdfast.metrics import reader

from .conftest import SECOND

if TYPE_CHECKING:
    from .conftest import Machine, Script

SHORT = "requireGpu: true\ngpuGrace: 1s\ngpus: 1\nFramework: Python\nTarget: local\n"


def test_a_run_that_stays_on_the_processor_is_ended_early(machine: Machine) -> None:
    machine.desk.script(SHORT, "aml_config/gpu.runconfig")
    machine.desk.script("import time\nprint('on', flush=True)\ntime.sleep(600)\n")
    began = time.monotonic()
    done = machine.desk.holdfast("submit", "-c", "gpu", "train.py")
    assert done.code == 79, done.err
    assert time.monotonic() - began < 60
    record = machine.desk.record()
    assert record["status"] == "Failed"
    assert record["reason"].startswith("gpu-idle: no process of the run was seen on its GPU within 1s")
    assert "on" in done.text.splitlines()
    assert "idle" in done.err.splitlines()[-1]


def test_a_run_that_ends_before_that_without_its_gpu_has_failed_too(machine: Machine) -> None:
    machine.desk.script("print('done')\n")
    done = machine.desk.submit("--gpus", "1", "--require-gpu", "train.py")
    assert done.code == 79, done.err
    assert machine.desk.record()["reason"].startswith("gpu-idle: no process of the run was seen on GPU 0")


def test_its_own_failure_stays_its_own(machine: Machine) -> None:
    machine.desk.script("raise SystemExit(3)\n")
    assert machine.desk.submit("--gpus", "1", "--require-gpu", "train.py").code == 3


def test_a_run_that_uses_its_gpu_goes_on(machine: Machine) -> None:
    machine.desk.script(SHORT.replace("1s", "20s"), "aml_config/gpu.runconfig")
    script = machine.begin("-c", "gpu")
    script.compute()
    script.let_go()
    machine.gpus.tell(GPU, SECOND)
    record = machine.desk.wait_for_end(script.number)
    assert (record["status"], record["gpu"]["verdict"]) == ("Completed", "used")


def test_memory_alone_is_not_use(machine: Machine) -> None:
    script = machine.begin("--gpus", "1", "--require-gpu")
    script.compute(busy=0)
    eventually(lambda: _seconds_on_card(script) > 2.5, 60)
    script.let_go()
    machine.gpus.tell(GPU, SECOND)
    record = machine.desk.wait_for_end(script.number)
    assert (record["status"], record["exit_code"], record["gpu"]["verdict"]) == ("Failed", 79, "held")
    assert record["reason"].startswith("gpu-idle: GPU 0: pid ")
    assert "with 3.22 GB of memory; it was busy for 0.00 s" in record["reason"]
    card = machine.desk.holdfast("info", "-r", script.number, "-o", "table").text
    assert "gpu        held: GPU 0: pid" in card


def _seconds_on_card(script: Script) -> float:
    """Between the first and the last sample that shows its memory."""
    found = reader.read_dir(str(script.attempt / "gpu")).by_name["gpu0.memory"]
    samples = zip(found.times, found.values, strict=True)
    times = [at for at, value in samples if isinstance(value, (int, float)) and value > 1 << 30]
    return (times[-1] - times[0]) / 1e9 if times else 0.0


def test_where_there_is_no_gpu_the_script_does_not_start(machine: Machine) -> None:
    machine.gpus.tell()
    machine.desk.script("open('started', 'w')\n")
    done = machine.desk.submit("--require-gpu", "train.py")
    assert done.code == 79, done.err
    assert "shows no GPU" in machine.desk.record()["reason"]
    assert not [event for event in machine.desk.events() if event["type"] == "started"]


def test_unreadable_gpu_does_not_fail_a_run_that_requires_it(machine: Machine) -> None:
    machine.gpus.tell(GPU, more=["* fail nvmlInit 18"])
    machine.desk.script("print('done')\n")
    done = machine.desk.submit("--require-gpu", "train.py")
    assert done.code == 0, done.err
    assert machine.desk.record()["gpu"]["verdict"] == "unmeasured"


def test_where_cuda_does_not_start_neither_does_the_script(machine: Machine) -> None:
    machine.cuda.tell(more=["* fail cuInit 803"])
    machine.desk.script("print('never')\n")
    done = machine.desk.submit("--gpus", "1", "--require-gpu", "train.py")
    assert done.code == 79, done.err
    assert "never" not in done.text
    assert machine.desk.record()["reason"].startswith("gpu-idle: ")
