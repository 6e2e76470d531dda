"""A data set on a machine over SSH: first submit, second submit, one file changed; against rsync and against no data.

    python bench/data.py [--gigabytes 5] [--files 500] [--rounds N] [--disk FOLDER]

The machine is that of ``bench/remote.py``: namespaces of its own with an sshd. Its files and the client's are in memory
or, with --disk, in a folder of yours; both sides need space for the set, the machine twice: 15 GB for 5 GB of data.
A submit with the unchanged set is paired with one without data right before or after it; the differences of the pairs
are shown, so that a machine that is busy at times is busy for both.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent))

from remote import MEMORY, SENT, SUBMIT, Bench, Box, Moments

from sshlab import Lab, Unavailable

WITH_DATA = (*SUBMIT[:-1], "--data", "set=../set", SUBMIT[-1])
BLOCK = 1 << 20


def main() -> int:
    options = parse()
    shares = {"/disk": options.disk} if options.disk else {}
    try:
        with (
            Lab(("box",), shares) as lab,
            tempfile.TemporaryDirectory(prefix="hf-", dir=options.disk or MEMORY) as scratch,
        ):
            measure(Bench(lab, Path(scratch), options), options)
    except Unavailable as why:
        print(f"!!! NOT MEASURED: {why}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=11, help="of the second submit")
    parser.add_argument("--disk", type=Path, help="folder for the files of both sides, instead of memory")
    return parser.parse_args()


def measure(bench: Bench, options: argparse.Namespace) -> None:
    box = Box(bench, "data", bench.host.hostname)
    folder, size = box.place / "set", int(options.gigabytes * 1e9 / options.files)
    folder.mkdir()
    for number in range(options.files):
        fill(folder / f"{number:06}.bin", size)
    reach = ("-e", f"ssh -S {box._socket()} -l ada")
    rsync = ["rsync", "-a", "--whole-file", *reach, f"{folder}/", f"{box.address}:{box.bare}/"]
    print(f"{options.gigabytes:g} GB in {options.files} files, files in {options.disk or 'memory'}", flush=True)
    show("first: rsync", [box.watch(rsync)])
    show("first: holdfast submit", [box.watch(WITH_DATA, SENT)])
    box.watch(WITH_DATA, SENT)
    times = bench.in_turn(
        {
            "unchanged: rsync": lambda: box.watch(rsync),
            "submit without data": lambda: box.watch(SUBMIT, SENT),
            "unchanged: holdfast submit": lambda: box.watch(WITH_DATA, SENT),
        },
        options.rounds,
    )
    for name, seen in times.items():
        show(name, seen)
    show_difference(*list(times.values())[1:])
    for name, argv, marks in (("rsync", rsync, ()), ("holdfast submit", WITH_DATA, (SENT,))):
        fill(folder / "000000.bin", size)
        before = bench.lab.traffic(bench.host).bytes_to
        moments = box.watch(argv, *marks)
        sent = bench.lab.traffic(bench.host).bytes_to - before
        show(f"one file changed: {name}", [moments], f"   {sent / 1e6:.1f} MB sent, the file has {size / 1e6:.1f} MB")
    bench.drop(box)


def fill(path: Path, size: int) -> None:
    with path.open("wb") as target:
        for start in range(0, size, BLOCK):
            target.write(os.urandom(min(BLOCK, size - start)))


def show(name: str, seen: list[Moments], more: str = "") -> None:
    """Of a submit: until the script has been started."""
    seconds = median(each.marks[0] if each.marks else each.total for each in seen)
    print(f"{name:<40}{seconds * 1e3:>9.0f} ms{more}", flush=True)


def show_difference(plain: list[Moments], second: list[Moments]) -> None:
    """Of the submits of each round, which follow each other."""
    pairs = zip(plain, second, strict=True)
    differences = [(with_data.marks[0] - without.marks[0]) * 1e3 for without, with_data in pairs]
    low, middle, high = quantiles(differences, n=4)
    spread = f"quartiles {low:.0f} and {high:.0f}, {len(differences)} pairs"
    print(f"{'second submit, more than without data':<40}{middle:>9.0f} ms   (aim 50; {spread})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
