"""A script's arguments as a person reads them."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import parameters


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--lr 0.1", {"lr": 0.1}),
        ("--lr=0.1", {"lr": 0.1}),
        ("lr=0.1", {"lr": 0.1}),
        ("-b 32", {"b": 32}),
        ("-b32", {"b": 32}),
        ("-lr 1e-3", {"lr": 0.001}),
        ("--fast", {"fast": True}),
        ("--fast --lr 0.1", {"fast": True, "lr": 0.1}),
        ("--shift -3 --bias -.5", {"shift": -3, "bias": -0.5}),
        ("--use-amp true --bf16 False", {"use-amp": True, "bf16": False}),
        ("--layer 64 --layer 32", {"layer": [64, 32]}),
        ("--layers 64 32 10 data.csv", {"layers": [64, 32, 10]}),
        ("--data a.csv b.csv", {"data": "a.csv"}),
        ("model.lr=0.1 +trainer.epochs=3 ++x=y", {"model.lr": 0.1, "trainer.epochs": 3, "x": "y"}),
        ("--name=", {"name": ""}),
        ("--note 'a=b c'", {"note": "a=b c"}),
        ("--note='a=b c'", {"note": "a=b c"}),
        ("data/train.csv 7", {}),
        ("--lr 0.1 -- --lr 7", {"lr": 0.1}),
        ("--id 007 --big 12345678901234567890", {"id": 7, "big": "12345678901234567890"}),
        ("--huge 1e999 --word nan", {"huge": "1e999", "word": "nan"}),
        ("- -- x=1", {}),
    ],
)
def test_lines(line: str, found: dict[str, object]) -> None:
    read = parameters.read(shlex.split(line))
    assert read == found
    assert [type(value) for value in read.values()] == [type(value) for value in found.values()]


@given(st.lists(st.text(max_size=12)))
def test_no_line_is_too_strange(words: list[str]) -> None:
    for value in parameters.read(words).values():
        assert isinstance(value, (bool, int, float, str, list))
