"""The fault harness at full size: every exact point of every command, more than a thousand kills; see docs/soak.md."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

import seeds
from faults import campaign, people_campaign, runner_campaign
from faults.campaign import Kill, Size
from faults.stage import processes_of
from soak.page import write_beginning

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.people_campaign import Cancel

    Part = Callable[[Path, random.Random], list[Kill]]

# HOLDFAST_SOAK_PART=10 plays a tenth of every part and leaves docs/soak.md as it is.
PART = int(os.environ.get("HOLDFAST_SOAK_PART", "1"))
POINTS = None if PART == 1 else 100 // PART
UPKEEP = ("store prune", "store reindex", "history delete", "history list")
KILLS: tuple[Part, ...] = (
    partial(campaign.first_submits, size=Size(POINTS, 0)),
    partial(runner_campaign.first_sessions, size=Size(POINTS, 0)),
    partial(campaign.submits, size=Size(POINTS, 60 // PART), attached=False, far=False),
    partial(campaign.submits, size=Size(POINTS, 120 // PART), attached=True, far=False),
    partial(campaign.submits, size=Size(POINTS, 120 // PART), attached=True, far=True),
    partial(campaign.followers, size=Size(0, 60 // PART), far=False),
    partial(campaign.followers, size=Size(0, 60 // PART), far=True),
    *[partial(campaign.cancels, size=Size(POINTS, 10 // PART))] * 6,
    *(partial(campaign.housekeeping, size=Size(POINTS, 5 // PART), what=what) for what in UPKEEP),
    partial(campaign.restores, size=Size(POINTS, 10 // PART)),
    partial(runner_campaign.sessions, size=Size(POINTS, 0)),
    partial(runner_campaign.supervisors, size=Size(POINTS, 0)),
    *[partial(runner_campaign.guardians, size=Size(POINTS, 0))] * 3,
    partial(runner_campaign.watchers_in_time, size=Size(0, 120 // PART)),
)
PEOPLE: tuple[Part, ...] = (
    partial(people_campaign.races, times=200 // PART),
    partial(people_campaign.storms, times=100 // PART),
)
FAMILIES = 200 // PART


@pytest.mark.timeout(3600)
def test_a_thousand_kills(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("NOT TESTED: there is no strace here")
    number = seeds.seed()
    rngs = (random.Random(f"{number}/{part}") for part in range(1000))
    try:
        families = people_campaign.families(tmp_path / "families", next(rngs), FAMILIES)  # alone: it is timed
        with ThreadPoolExecutor(3) as pool:
            parts = [pool.submit(part, tmp_path / str(n), next(rngs)) for n, part in enumerate((*KILLS, *PEOPLE))]
            done = [part.result() for part in parts]
    finally:
        for pid in processes_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
    kills = [kill for part in done[: len(KILLS)] for kill in part]
    people = [kill for part in done[len(KILLS) :] for kill in part]
    if PART == 1:
        write_beginning(page(number, kills, people, families))
    campaign.check([*kills, *people, *(cancel.kill for cancel in families)], number)
    steps = Counter(kill.step for kill in kills)
    assert len(kills) >= 1000 // PART
    assert {step: count for step, count in steps.items() if count < 10 // PART} == {}
    assert median(cancel.seconds for cancel in families) <= 1.0


def page(number: int, kills: list[Kill], people: list[Kill], families: list[Cancel]) -> str:
    wrong = [kill for kill in (*kills, *people, *(cancel.kill for cancel in families)) if kill.wrong]
    found = [f"- {kill.step}, {kill.where}: {finding}" for kill in wrong for finding in kill.wrong]
    told = sorted(cancel.seconds for cancel in families)
    return _PAGE.format(
        seed=number,
        kills=campaign.table(kills),
        people=campaign.table([*people, *(cancel.kill for cancel in families)]),
        median=median(told) * 1000,
        most=told[len(told) * 19 // 20] * 1000,
        worst=told[-1] * 1000,
        found="\n".join(found) or "Nothing.",
    )


_PAGE = """\
# Results of the soak tests

Written by `make soak`, which kills Holdfast's own processes with `kill -9` and then checks the runs with nine oracles.
Some kills fall on one exact system call (`strace` injects the signal at every rename, sync, write, unlink,
mkdir and link of a command in turn), the others at a random moment from the command's first system call to
200 ms after it has printed the id. `HOLDFAST_TEST_SEED={seed}` draws the same again. `make test` plays the same
harness at a twentieth of this size, and plants a bug for every oracle to find (`tests/faults`).

After each kill an ordinary `holdfast history list` is run, every run is given the time to end, and then:

| oracle | must hold |
| --- | --- |
| O1 | every id that was ever printed is in the history, no number was given twice |
| O2 | no script was started twice, by a file that the scripts themselves append to |
| O3 | one closing event with the true result; Completed only if the script ended by itself |
| O4 | the log is what the script wrote, byte for byte; of a script that was killed, the beginning of it |
| O5 | the same for every point of every metric |
| O6 | no process, held lock or mount is left, and after a `store prune` no temporary name |
| O7 | every object is what its name says, no run lacks one, index and `store verify` are clean |
| O8 | the value of a secret is in no file and in no output |
| O9 | exit code non-zero where work is not done, with cause, place and next command |

## Kills by the step they fell into

{kills}

## Without kills

Two clients that stream and two that cancel one run at the same time; a Ctrl-C or several at any moment of a submit; a
cancel of scripts with up to six children, half of them daemons that have left session, parent and environment behind.

{people}

From the start of the `cancel` command to the SIGTERM in the script: {median:.0f} ms in the median, {most:.0f} ms for 19
of 20, {worst:.0f} ms at worst, on a machine that did other work, too.

## Findings

{found}
"""
