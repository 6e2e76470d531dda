"""A program ``nvidia-smi`` that tells of cards which are not there, in the words of the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """#!/bin/sh
echo "$*" >> {calls}
case "$*" in
"--query-gpu=driver_version,compute_cap --format=csv,noheader")
  for card in {cards}; do echo "{driver}, $card"; done ;;
"")
  echo "| NVIDIA-SMI {driver}             Driver Version: {driver}     CUDA Version: {cuda}     |" ;;
*)
  echo "Field is not a valid field to query."; exit 2 ;;
esac
"""
BROKEN = """#!/bin/sh
echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
exit 9
"""


def write_nvidia_smi(folder: Path, driver: str, cuda: str, *cards: str) -> Path:
    """A folder for PATH; beside the program, ``calls`` has a line for every question. Without cards it fails."""
    folder.mkdir(exist_ok=True)
    calls = folder / "calls"
    calls.touch()
    program = folder / "nvidia-smi"
    text = PROGRAM.format(calls=calls, cards=" ".join(cards), driver=driver, cuda=cuda) if cards else BROKEN
    program.write_text(text)
    program.chmod(0o755)
    return folder
