"""Four GPUs, two users, a foreign process, and kills: no GPU is given twice, and the order is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .campaign import CARDS, Campaign

if TYPE_CHECKING:
    from pathlib import Path


def test_no_card_is_given_twice(tmp_path: Path) -> None:
    check(Campaign(tmp_path, submits=40, kills=6, seed=8))


def test_two_books_would_be_found_out(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, submits=16, kills=0, seed=8, apart=True)
    campaign.run()
    assert campaign.doubles()


def check(campaign: Campaign) -> None:
    campaign.run()
    assert campaign.doubles() == []
    assert campaign.out_of_order() == []
    early = [one for one in campaign.taken() if not campaign.moved_at or one.at < campaign.moved_at]
    assert early
    assert not [one for one in early if CARDS[3].uuid in one.uuids]
    assert campaign.killed
    outcomes = campaign.outcomes()
    assert outcomes["completed"] > sum(outcomes.values()) // 2
    # Whatever was killed has let go: all four can be had.
    campaign.gpus.tell(*CARDS)
    done = campaign.desks[0].submit("--gpus", "4", "--wait-for-gpu", "60s", "train.py", str(campaign.probes), "0")
    assert done.code == 0, done.err
