"""500 runs of two people on four GPUs with a stranger, killed anywhere."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from gpus.campaign import Campaign
from gpus.test_many import check

if TYPE_CHECKING:
    from pathlib import Path


def test_five_hundred(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    campaign = Campaign(tmp_path, submits=500, kills=100, seed=seed)
    check(campaign)
    taken = campaign.taken()
    print(f"seed {seed}: {len(taken)} had their cards, {campaign.killed} killed, {campaign.outcomes()}")
