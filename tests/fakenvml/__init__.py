"""GPUs that are not there: a ``libnvidia-ml.so.1`` of our own, built from nvml.c, that tells what a test writes.

    machine = FakeGpus(tmp_path, GPU, GPU._replace(busy=97))
    subprocess.run(..., env={"LD_LIBRARY_PATH": str(machine.folder)})
    machine.tell(GPU, more=["1 lost 1"])       # from the next call on

``more`` are lines as nvml.c reads them: ``SCOPE fail FUNCTION CODE``, ``SCOPE delay FUNCTION MILLISECONDS``,
``SCOPE crash FUNCTION``, ``INDEX lost 1``, ``INDEX xid 79`` (one event each), ``INDEX throttle BITS``,
``INDEX violation POLICY NANOSECONDS``, ``INDEX accounted PID PERCENT BYTES MILLISECONDS RUNS``,
``INDEX sample MICROSECONDS PERCENT``,
``INDEX ecc_corrected N``, ``INDEX ecc_uncorrected N``, ``INDEX reserved BYTES``. Opening the library is ``nvmlInit``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fakelibrary import HAS_COMPILER as HAS_COMPILER
from fakelibrary import FakeLibrary

if TYPE_CHECKING:
    from collections.abc import Iterable


class Gpu(NamedTuple):
    """What is None is not supported by this card. ``processes``: pid, bytes and percent of each."""

    name: str
    uuid: str
    pci: str
    capability: str
    memory: int
    used: int = 0
    busy: int | None = 0
    memory_clock: int | None = 1593
    core_clock: int | None = 1410
    power: int | None = 60_000
    energy: int | None = 0
    temperature: int | None = 30
    ecc: int | None = 1
    mig: int | None = 0
    processes: tuple[tuple[int, int, int], ...] = ()


GPU = Gpu("NVIDIA A100-SXM4-80GB", "GPU-5b0e4d6c-0000-4000-8000-000000000000", "06c3:00:00", "8.0", 80 << 30)


class FakeGpus(FakeLibrary):
    def __init__(self, place: Path, *cards: Gpu) -> None:
        super().__init__(place / "nvml", "libnvidia-ml.so.1", Path(__file__).with_name("nvml.c"))
        self.tell(*cards)

    def tell(self, *cards: Gpu, driver: str = "550.54.14", cuda: int = 12040, more: Iterable[str] = ()) -> None:
        lines = [f"* driver {driver}", f"* cuda {cuda}", *more]
        for index, card in enumerate(cards):
            facts = card._asdict()
            lines += [f"{index} process {pid} {size} {percent}" for pid, size, percent in facts.pop("processes")]
            lines += [f"{index} {key} {value}" for key, value in facts.items() if value is not None]
        self.say(lines)
