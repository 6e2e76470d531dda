"""A driver that is not there: a ``libcuda.so.1`` of our own, built from cuda.c, whose cards compute as a test says.

    driver = FakeCuda(tmp_path, CARD, CARD._replace(capability="3.7"))
    subprocess.run(..., env={"LD_LIBRARY_PATH": str(driver.folder)})
    driver.tell(more=["* fail cuInit 803"])    # from the next call on; no card: cuInit says 100

``more`` are lines as cuda.c reads them: ``SCOPE fail FUNCTION CODE``, ``SCOPE delay FUNCTION MILLISECONDS``,
``SCOPE crash FUNCTION``, and ``INDEX wrong 1``, by which the last number of a sum is not what it must be. Where the
library goes alone, as into a container, FAKE_STATE names the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fakelibrary import HAS_COMPILER as HAS_COMPILER
from fakelibrary import FakeLibrary

if TYPE_CHECKING:
    from collections.abc import Iterable

LIBRARY = "libcuda.so.1"


class Card(NamedTuple):
    name: str
    uuid: str
    capability: str
    memory: int = 1 << 30


CARD = Card("NVIDIA A100-SXM4-80GB", "GPU-5b0e4d6c-0000-4000-8000-000000000000", "8.0")


class FakeCuda(FakeLibrary):
    def __init__(self, place: Path, *cards: Card) -> None:
        super().__init__(place / "cuda", LIBRARY, Path(__file__).with_name("cuda.c"))
        self.tell(*cards)

    def tell(self, *cards: Card, cuda: int = 12040, more: Iterable[str] = ()) -> None:
        lines = [f"* cuda {cuda}", *more]
        for index, card in enumerate(cards):
            lines += [f"{index} {key} {value}" for key, value in card._asdict().items()]
        self.say(lines)
