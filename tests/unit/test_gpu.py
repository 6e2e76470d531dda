"""GPUs asked for through the real binding, from a library of our own that tells of cards which are not there."""

from __future__ import annotations

import getpass
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import alive, eventually
from fakenvml import GPU, HAS_COMPILER, FakeGpus
from holdfast.engine.connection import bundle
from holdfast.runner.container import nvidia_files
from holdfast.runner.machine import processes
from lab.pythons import OLDEST, python_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
LONG_S = "100"
READER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from runner.gpu import nvml_process as gpu
lock = open(sys.argv[1] + "/lock", "w")
reader = gpu.Reader(*map(float, sys.argv[2].split()))
for _ in sys.stdin:
    print(json.dumps(reader.read()), flush=True)
"""
HOLD = "import sys; print(flush=True); sys.stdin.read()"
TWO = (GPU, GPU._replace(uuid="GPU-5b0e4d6c-0000-4000-8000-000000000001", busy=97, used=3 << 30))


class Reader:
    """The runner's code from its bundle, in its own process, called repeatedly."""

    def __init__(self, parcel: Path, path: str, libraries: Path | None, limit: str, python: str) -> None:
        env = {"PATH": path, **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})}
        command = [python, "-I", "-S", "-c", READER, str(parcel), limit]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def read(self) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Place:
    def __init__(self, parcel: Path, folder: Path) -> None:
        self.parcel = parcel
        self.gpus = FakeGpus(folder, *TWO)
        self.bin = folder / "bin"
        self.bin.mkdir()

    def reader(self, limit: str = LONG_S, python: str = sys.executable, *, library: bool = True) -> Reader:
        return Reader(self.parcel, str(self.bin), self.gpus.folder if library else None, limit, python)


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runner")
    zipfile.ZipFile(io.BytesIO(bundle.to_zip())).extractall(place)
    return place


@pytest.fixture
def place(parcel: Path, tmp_path: Path) -> Place:
    return Place(parcel, tmp_path)


@pytest.fixture
def holders() -> Iterator[list[int]]:
    """A process of one of our runs, and one of another user."""
    ours = {"HOLDFAST_RUN_UID": "ab" * 16, "HOLDFAST_RUN_ID": "digits_1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = [subprocess.Popen([sys.executable, "-S", "-c", HOLD], env=env, **pipes) for env in (ours, {})]  # type: ignore[call-overload]
    for process in started:
        process.stdout.readline()
    yield [process.pid for process in started]
    for process in started:
        process.communicate()


@pytest.mark.parametrize("version", ["", OLDEST])
def test_what_a_card_is_and_does(place: Place, version: str) -> None:
    with place.reader(python=python_of(version) if version else sys.executable) as reader:
        found = reader.read()
    assert {key: found[key] for key in found if key != "gpus"} == {
        "state": "measured",
        "source": "nvml",
        "driver": "550.54.14",
        "cuda": "12.4",
        "trouble": "",
    }
    assert [card["uuid"] for card in found["gpus"]] == [card.uuid for card in TWO]
    assert found["gpus"][1] == {
        "index": 1,
        "name": "NVIDIA A100-SXM4-80GB",
        "uuid": "GPU-5b0e4d6c-0000-4000-8000-000000000001",
        "pci": "06c3:00:00.0",
        "major": 8,
        "minor": 0,
        "memory_clock_mhz": 1593,
        "core_clock_mhz": 1410,
        "memory_total": 80 << 30,
        "memory_free": 77 << 30,
        "memory_used": 3 << 30,
        "busy_percent": 97,
        "power_watts": 60.0,
        "celsius": 30,
        "ecc": True,
        "mig": False,
        "minor_number": 1,
        "processes": [],
        "trouble": "",
    }


def test_what_a_card_does_not_tell_is_none_and_not_zero(place: Place) -> None:
    place.gpus.tell(GPU._replace(busy=None, power=None, ecc=None, mig=None, temperature=None, memory_clock=None))
    with place.reader() as reader:
        (card,) = reader.read()["gpus"]
    silent = ("busy_percent", "power_watts", "ecc", "mig", "celsius", "memory_clock_mhz")
    assert {card[name] for name in silent} == {None}
    assert (card["trouble"], card["core_clock_mhz"]) == ("", 1410)


@pytest.mark.parametrize("more", [[], ["0 fail nvmlDeviceGetComputeRunningProcesses_v3 13"]], ids=["new", "old driver"])
def test_who_holds_it(place: Place, holders: list[int], more: list[str]) -> None:
    ours, foreign = holders
    place.gpus.tell(GPU._replace(processes=((ours, 1 << 30, 90), (ours, 1 << 20, 1), (foreign, 5, 0))), more=more)
    with place.reader() as reader:
        (card,) = reader.read()["gpus"]
    found = {process["pid"]: process for process in card["processes"]}
    user, program = getpass.getuser(), Path(f"/proc/{ours}/comm").read_text().strip()
    common = {"user": user, "program": program}
    assert found == {
        ours: {"pid": ours, "memory": (1 << 30) + (1 << 20), "run": "ab" * 16, "run_id": "digits_1", **common},
        foreign: {"pid": foreign, "memory": 5, "run": None, "run_id": None, **common},
    }


def test_unknown_process_is_listed_without_details(place: Place) -> None:
    place.gpus.tell(GPU._replace(processes=((4_194_999, 7, 0),)))
    with place.reader() as reader:
        (process,) = reader.read()["gpus"][0]["processes"]
    assert (process["pid"], process["user"], process["program"], process["run"]) == (4_194_999, None, None, None)


def test_a_lost_card_is_still_named_and_the_other_goes_on(place: Place) -> None:
    with place.reader() as reader:
        before = reader.read()["gpus"]
        place.gpus.tell(*TWO, more=["0 lost 1"])
        lost, other = reader.read()["gpus"]
        place.gpus.tell(*TWO, more=["0 fail nvmlDeviceGetHandleByIndex_v2 999"])
        taken = reader.read()["gpus"][0]
    assert before[0]["trouble"] == ""
    assert "fallen off the bus" in lost["trouble"]
    assert (lost["uuid"], lost["memory_total"], lost["processes"]) == (TWO[0].uuid, None, None)
    assert other == before[1]
    assert "container lost access to the GPU" in taken["trouble"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (18, "of different versions"),
        (4, "not accessible to this user"),
        (999, "unknown error"),
        (15, "lost"),
        (21, "NVIDIA's library: "),
    ],
)
def test_a_library_that_cannot_tell_says_why(place: Place, code: int, words: str) -> None:
    place.gpus.tell(*TWO, more=[f"* fail nvmlInit {code}"])
    with place.reader() as reader:
        found = reader.read()
        assert (found["state"], found["gpus"]) == ("unmeasured", [])
        assert words in found["trouble"]
        place.gpus.tell(*TWO)
        assert len(reader.read()["gpus"]) == 2, "asked again, as it may have been mended"


def test_hanging_driver_is_given_up_without_leftover_processes(place: Place) -> None:
    place.gpus.tell(*TWO, more=["* delay nvmlDeviceGetCount_v2 3600000"])
    with place.reader(limit="0.5") as reader:
        for _ in range(3):
            found = reader.read()
            assert (found["state"], found["gpus"]) == ("unmeasured", [])
            assert found["trouble"] == "NVIDIA's driver did not respond within 0.5 s"
        eventually(lambda: processes.descendants(reader.process.pid) == [])


def test_slow_driver_is_pending_and_its_answer_is_read_by_a_later_look(place: Place) -> None:
    place.gpus.tell(*TWO, more=["* delay nvmlDeviceGetCount_v2 1000"])
    with place.reader(limit=f"{LONG_S} 0.2") as reader:
        first = reader.read()
        assert first["is_pending"]
        assert "has not responded for 0 s" in first["trouble"]
        eventually(lambda: len(reader.read()["gpus"]) == 2)


def test_crash_of_the_library_does_not_affect_the_caller(place: Place) -> None:
    place.gpus.tell(*TWO, more=["* crash nvmlInit"])
    with place.reader() as reader:
        assert reader.read()["trouble"] == "NVIDIA's library crashed when queried"
        assert reader.read()["state"] == "unmeasured"


def test_the_child_holds_nothing_of_its_parent_and_ends_with_it(place: Place) -> None:
    with place.reader() as reader:
        reader.read()
        (child,) = processes.descendants(reader.process.pid)
        opened = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{child}/fd")]
        parents = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{reader.process.pid}/fd")]
        reader.process.kill()
        eventually(lambda: not alive(child))
    assert str(place.parcel / "lock") in parents, "or this test proves nothing"
    assert len([name for name in opened if name.startswith("pipe:")]) == 2
    assert {name for name in opened if not name.startswith("pipe:")} <= {os.devnull, "/dev/null"}


def test_without_anything_of_nvidias(place: Place) -> None:
    seen = nvidia_files.facts()
    if seen["driver"]:
        pytest.skip("this machine has a driver of NVIDIA's")
    with place.reader(library=False) as reader:
        found = reader.read()
    known = seen["cards"] == 0 and not os.path.exists("/dev/kfd")
    assert (found["state"], found["gpus"]) == ("none" if known else "unmeasured", [])
    assert (found["trouble"] == "this machine has no NVIDIA GPU") == known


OLD_SMI = """#!/bin/sh
case "$*" in
*compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
*mig.mode.current*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
--query-gpu=*) echo '0, Tesla K80, GPU-1, 0006:C3:00.0, 2505, 875, 11441, 11376, 65, [N/A], 27.45, 35, Enabled, 4.5' ;;
--query-compute-apps=*) echo 'GPU-1, {pid}, 1024' ;;
"") echo '| NVIDIA-SMI 4.5    Driver Version: 4.5    CUDA Version: 11.0     |' ;;
esac
"""


def program(place: Place, text: str) -> None:
    (place.bin / "sh").symlink_to("/bin/sh")
    file = place.bin / "nvidia-smi"
    file.write_text(text)
    file.chmod(0o755)


def test_nvidias_program_is_the_second_source(place: Place) -> None:
    program(place, OLD_SMI.replace("{pid}", str(os.getpid())))
    with place.reader(library=False) as reader:
        found = reader.read()
    (card,) = found["gpus"]
    assert (found["source"], found["driver"], found["cuda"]) == ("nvidia-smi", "4.5", "11.0")
    assert (card["name"], card["pci"], card["memory_clock_mhz"]) == ("Tesla K80", "0006:c3:00.0", 2505)
    assert (card["memory_total"], card["power_watts"], card["ecc"]) == (11441 << 20, 27.45, True)
    assert (card["major"], card["mig"], card["busy_percent"]) == (None, None, None)
    assert [(one["pid"], one["memory"]) for one in card["processes"]] == [(os.getpid(), 1 << 30)]


def test_what_nvidias_program_complains_of_is_told(place: Place) -> None:
    program(place, "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n")
    with place.reader(library=False) as reader:
        found = reader.read()
    assert found["state"] == "unmeasured"
    assert found["trouble"] == "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"


def test_the_binding_travels_as_it_is_installed_with_its_licence(parcel: Path) -> None:
    text = (parcel / "runner" / "gpu" / "pynvml.py").read_text()
    assert "Redistributions of source code must retain the above copyright notice" in text
    assert [path for path in parcel.rglob("*nvml*.py") if path.parents[1].name != "runner"] == []
    installed = metadata.distribution("nvidia-ml-py").locate_file("pynvml.py")
    assert text == Path(str(installed)).read_text()


def test_the_installed_binding_has_every_name_that_the_runner_uses(parcel: Path) -> None:
    """tests/soak/test_dependency_ranges.py asks both ends of its range."""
    sources = "".join(path.read_text() for path in (parcel / "runner" / "gpu").glob("*.py") if path.name != "pynvml.py")
    used = set(re.findall(r"\b(?:py)?nvml\.((?:nvml|NVML)\w+)|\"(nvml[A-Z]\w+)\"", sources))
    names = {name for pair in used for name in pair if name}
    assert len(names) > 20
    binding = (parcel / "runner" / "gpu" / "pynvml.py").read_text()
    assert sorted(name for name in names if not re.search(rf"^(?:def |class )?{name}\b", binding, re.MULTILINE)) == []


LISTEN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from runner.gpu import pynvml as nvml
nvml.nvmlInit()
card = nvml.nvmlDeviceGetHandleByUUID(sys.argv[2].encode())
events = nvml.nvmlEventSetCreate()
nvml.nvmlDeviceRegisterEvents(card, nvml.nvmlEventTypeXidCriticalError, events)
try:
    nvml.nvmlEventSetWait_v2(events, 0)
except nvml.NVMLError_Timeout:
    print("quiet", flush=True)
sys.stdin.readline()
event = nvml.nvmlEventSetWait_v2(events, 60000)
print(json.dumps({
    "xid": event.eventData,
    "energy": nvml.nvmlDeviceGetTotalEnergyConsumption(card),
    "throttle": nvml.nvmlDeviceGetCurrentClocksEventReasons(card),
    "busy": [(one.pid, one.smUtil) for one in nvml.nvmlDeviceGetProcessUtilization(card, 0)],
    "violation": nvml.nvmlDeviceGetViolationStatus(card, nvml.NVML_PERF_POLICY_THERMAL).violationTime,
    "ecc": nvml.nvmlDeviceGetTotalEccErrors(card, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, 0),
    "most": nvml.nvmlDeviceGetAccountingStats(card, 41).maxMemoryUsage,
}))
"""


def test_the_stand_in_tells_what_a_receipt_needs(place: Place) -> None:
    command = [sys.executable, "-I", "-S", "-c", LISTEN, str(place.parcel), GPU.uuid]
    env = {"LD_LIBRARY_PATH": str(place.gpus.folder)}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"quiet\n"
        told = ["0 xid 79", "0 throttle 0x40", "0 violation 1 2500", "0 ecc_uncorrected 3", "0 accounted 41 9 77 5 1"]
        place.gpus.tell(GPU._replace(energy=12_345_678_901, processes=((41, 9, 88),)), more=told)
        said, _ = process.communicate(b"\n")
    assert json.loads(said) == {
        "xid": 79,
        "energy": 12_345_678_901,
        "throttle": 0x40,
        "busy": [[41, 88]],
        "violation": 2500,
        "ecc": 3,
        "most": 77,
    }


COUNT_SAMPLES = """
import json, sys
sys.path.insert(0, sys.argv[1])
from runner.gpu import nvml
library = nvml.Library()
for _ in range(4):
    print(json.dumps(library.counters(0)["sampled"]), flush=True)
    sys.stdin.readline()
"""


def test_counters_add_up_new_samples_of_the_driver_and_skip_gaps(place: Place) -> None:
    command = [sys.executable, "-I", "-S", "-c", COUNT_SAMPLES, str(place.parcel)]
    env = {"LD_LIBRARY_PATH": str(place.gpus.folder)}
    samples = ["0 sample 1000000 100", "0 sample 1200000 100"]
    place.gpus.tell(GPU, more=samples)
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        answers = [process.stdout.readline()]
        for more in (
            ["0 sample 1400000 50", "0 sample 1600000 100"],
            [],
            ["0 sample 9600000 70", "0 sample 9800000 20"],
        ):
            samples += more
            place.gpus.tell(GPU, more=samples)
            process.stdin.write("\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.communicate("\n")
    first, second, none_new, after_gap = map(json.loads, answers)
    assert (first, none_new) == (None, None)
    assert second == pytest.approx([0.4, 0.3])
    assert after_gap == pytest.approx([0.2, 0.04])
