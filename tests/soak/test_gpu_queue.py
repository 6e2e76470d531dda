"""Hundreds of runs of two users on four GPUs with a foreign process and kills; then with a hostile user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seeds
from gpus.campaign import Campaign
from gpus.test_many import check

if TYPE_CHECKING:
    from pathlib import Path


def test_five_hundred(tmp_path: Path) -> None:
    seed = seeds.seed()
    campaign = Campaign(tmp_path, submits=500, kills=100, seed=seed)
    check(campaign)
    taken = campaign.taken()
    print(f"seed {seed}: {len(taken)} had their cards, {campaign.killed} killed, {campaign.outcomes()}")


def test_two_hundred_beside_a_hostile_neighbour(tmp_path: Path) -> None:
    """Order is the neighbour's to break; that no card has two holders and that every run ends is not."""
    seed = seeds.seed()
    campaign = Campaign(tmp_path, submits=200, kills=40, seed=seed, hostile=True)
    campaign.run()
    print(f"seed {seed}: {len(campaign.taken())} had their cards, {campaign.killed} killed, {campaign.outcomes()}")
    assert campaign.doubles() == []
    assert campaign.refused() == []
    assert campaign.outcomes()["completed"] > 100
