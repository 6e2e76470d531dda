"""The number that decides what a randomised test draws.

``make test`` always draws the same, so that it says the same of one state of the code; ``make soak`` draws anew, prints
what it drew, and ``HOLDFAST_TEST_SEED=NUMBER`` repeats it.
"""

from __future__ import annotations

import os
import random

VARIABLE = "HOLDFAST_TEST_SEED"
_FIXED = 20_261_116


def seed() -> int:
    wanted = os.environ.get(VARIABLE) or _FIXED
    number = random.SystemRandom().randrange(10**9) if wanted == "random" else int(wanted)
    print(f"{VARIABLE}={number}", flush=True)
    return number
