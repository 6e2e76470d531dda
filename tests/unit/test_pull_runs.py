"""What a target tells of its runs is believed only where it is what we would have written ourselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.transfer.pull_runs import understand

UID = "0123456789abcdef" * 2
REQUEST: dict[str, Any] = {
    "uid": UID,
    "run_id": "project_1700000000000",
    "run_number": 7,
    "project": "project",
    "project_id": "01234567-89ab-cdef-0123-456789abcdef",
    "project_root": "/home/somebody/project",
    "script": "train.py",
    "arguments": ["--lr", "0.1"],
    "config": "lab1",
    "target": "elsewhere",
    "kind": "remote",
    "home": "/somewhere",
    "reached_by": {"address": "evil.example"},
    "tree": "ab" * 32,
    "files": 1,
    "bytes": 100,
    "created_ns": 1_700_000_000_000_000_000,
    "parent_run_id": None,
    "fetch_outputs": "small",
    "user": "ada",
    "client_store": "f" * 32,
    "client": "laptop",
    "holdfast": "0.1",
}
RUN: dict[str, Any] = {"uid": UID, "request": REQUEST, "attempts": ["a1", "a2"]}


def test_a_run_as_we_would_have_written_it() -> None:
    offer = understand(RUN)
    assert offer is not None
    assert (offer.uid, offer.run_id, offer.number, offer.attempts) == (UID, REQUEST["run_id"], 7, ("a1", "a2"))
    ours = ("project_root", "target", "kind", "home", "reached_by", "uid", "run_id", "run_number")
    assert [name for name in ours if name in offer.request] == []
    assert offer.request["arguments"] == ["--lr", "0.1"]
    assert "parent_run_id" not in offer.request


@pytest.mark.parametrize(
    "change",
    [
        {"uid": "../" + UID[3:]},
        {"uid": UID.upper()},
        {"uid": None},
        {"request": None},
        {"request": []},
        {"attempts": []},
        {"attempts": None},
        {"attempts": ["a2"]},
        {"attempts": ["a1", "a1"]},
        {"attempts": ["a1", "../a2"]},
        {"attempts": {"a1": 1}},
    ],
)
def test_frames_that_are_no_runs(change: dict[str, Any]) -> None:
    assert understand({**RUN, **change}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"uid": "f" * 32},
        {"run_id": "project"},
        {"run_id": "a/b_17"},
        {"run_id": "_17"},
        {"run_id": "caf\u00e9_17"},
        {"run_id": "x_" + "9" * 40},
        {"run_id": "x\n_17"},
        {"run_id": 17},
        {"run_number": "7"},
        {"run_number": True},
        {"run_number": -1},
        {"run_number": 2**80},
        {"project_id": "../../etc"},
        {"project_id": "milliseconds"},
        {"project_id": ""},
        {"project_id": "a" * 100},
        {"project_id": None},
        {"arguments": "rm -rf"},
        {"arguments": [1]},
        {"tree": "z" * 64},
        {"tree": "ab"},
        {"created_ns": "yesterday"},
        {"script": None},
        {"project": ["p"]},
    ],
)
def test_malformed_requests_are_not_imported(change: dict[str, Any]) -> None:
    assert understand({**RUN, "request": {**REQUEST, **change}}) is None


def test_fields_that_need_not_be_there_are_left_out_where_they_make_no_sense() -> None:
    odd = {"files": -1, "retries": "many", "parent_run_id": "../x", "user": 7, "fetch_outputs": ["all"], "new": "?"}
    offer = understand({**RUN, "request": {**REQUEST, **odd}})
    assert offer is not None
    assert [name for name in odd if name in offer.request] == []


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(REQUEST)), inner, max_size=3),
    max_leaves=8,
)


@given(
    json,
    st.dictionaries(st.sampled_from([*RUN, "other"]), json),
    st.dictionaries(st.sampled_from(sorted(REQUEST)), json),
)
def test_whatever_comes_is_answered(frame: object, run: dict[str, Any], request: dict[str, Any]) -> None:
    understand(frame)
    understand({**RUN, **run})
    offer = understand({**RUN, "request": {**REQUEST, **request}})
    assert offer is None or offer.uid == UID
