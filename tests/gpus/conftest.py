"""A machine with GPUs that are not there: NVIDIA's two libraries as the tests tell them, and locks of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from fakecuda import CARD, FakeCuda
from fakenvml import GPU, FakeGpus, Gpu
from holdfast.metrics import reader

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from conftest import Desk

SECOND = GPU._replace(uuid="GPU-5b0e4d6c-0000-4000-8000-000000000001", pci="06c4:00:00")


class Machine:
    """``scripts`` say their pid and wait at a gate; ``open`` lets one appear on a card as if it computed there."""

    def __init__(self, desk: Desk, place: Path) -> None:
        self.desk = desk
        self.gpus = FakeGpus(place, GPU, SECOND)
        self.cuda = FakeCuda(place, CARD)
        self.locks = place / "locks"
        desk.env["LD_LIBRARY_PATH"] = f"{self.gpus.folder}:{self.cuda.folder}"
        desk.env["HOLDFAST_GPU_LOCKS"] = str(self.locks)

    def begin(self, *words: str) -> Script:
        """A run that has started and waits to be let go."""
        place = self.desk.project.parent
        gate = place / f"gate{len(list(place.glob('gate*')))}"
        os.mkfifo(gate)
        self.desk.script(WAITS)
        done = self.desk.submit("--detach", *words, "train.py", str(gate))
        assert done.code == 0, done.err
        return Script(self, gate, "last")


class Script:
    def __init__(self, machine: Machine, gate: Path, run: str) -> None:
        self._machine = machine
        self._gate = gate
        self.number = str(machine.desk.record(run)["run_number"])
        self.attempt = machine.desk.attempt(self.number)

    @property
    def pid(self) -> int:
        """Once it runs."""
        log = self.attempt / "log"
        eventually(lambda: log.exists() and log.read_bytes().startswith(b"pid "), 100)
        return int(log.read_text().split()[1])

    def compute(self, card: Gpu = GPU, busy: int = 50, size: int = 3 << 30) -> None:
        """From the next look on it is on the first card, and takes memory after its first sight."""
        first = card._replace(processes=((self.pid, 1 << 20, 0),), used=1 << 20)
        self._machine.gpus.tell(first, SECOND)
        self.await_event("gpu_context")
        self._machine.gpus.tell(card._replace(processes=((self.pid, size, busy),), busy=busy, used=size), SECOND)
        eventually(lambda: max(self.series("gpu0.memory"), default=0) >= size, 60)

    def series(self, name: str) -> list[float]:
        found = reader.read_dir(str(self.attempt / "gpu")).by_name.get(name)
        return [float(value) for value in found.values if isinstance(value, (int, float))] if found else []

    def await_event(self, kind: str, limit: float = 60) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [event for event in self.events() if event["type"] == kind]

        eventually(lambda: bool(found()), limit)
        return found()[-1]

    def events(self) -> list[dict[str, Any]]:
        from holdfast.runner.store.jsonl import read_lines

        return read_lines(os.fsencode(self.attempt / "events.jsonl"))

    def let_go(self) -> None:
        self._gate.write_bytes(b"")

    def end(self) -> dict[str, Any]:
        self.let_go()
        return self._machine.desk.wait_for_end(self.number, 100)


WAITS = "import os, sys\nprint('pid', os.getpid(), os.environ.get('CUDA_VISIBLE_DEVICES'))\nopen(sys.argv[1]).read()\n"


@pytest.fixture
def machine(desk: Desk, tmp_path: Path) -> Machine:
    return Machine(desk, tmp_path)
