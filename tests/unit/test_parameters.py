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


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--lr 0.1", {"lr": 0.1}),
        ("--lr=0.1 --lr 0.2 --lr x", {"lr": [0.1, 0.2, "x"]}),
        ("--layers 64 64 10 x", {"layers": [64, 64, 10]}),
        ("--name x y", {"name": "x"}),
        ("--fast", {"fast": True}),
        ("--fast --slow", {"fast": True, "slow": True}),
        ("-b 32 -j8 -v", {"b": 32, "j": 8, "v": True}),
        ("-j8x", {"j8x": True}),
        ("lr=0.1 +a.b=c ++d=e", {"lr": 0.1, "a.b": "c", "d": "e"}),
        ("--a b=c", {"a": True, "b": "c"}),
        ("--a -5 --b -x", {"a": -5, "b": True, "x": True}),
        ("--a= --b=TRUE --c=False", {"a": "", "b": True, "c": False}),
        ("--a 1 -- --b 2", {"a": 1}),
        ("word --a", {"a": True}),
        ("--1 2", {}),
        (f"--a {'9' * 18} --b {'9' * 19} --c +{'0' * 9}7", {"a": int("9" * 18), "b": "9" * 19, "c": 7}),
        ("--a 1e999 --b 1e3 --c .5 --d 5.", {"a": "1e999", "b": 1000.0, "c": 0.5, "d": 5.0}),
    ],
)
def test_parameters_of_a_command_line(line: str, found: dict[str, object]) -> None:
    result = parameters.read(line.split(" "))
    assert result == found
    assert list(result) == list(found)
    assert [type(value) for value in result.values()] == [type(value) for value in found.values()]


def test_value_with_a_space_may_hold_an_equals_sign() -> None:
    assert parameters.read(["--a", "b=c d"]) == {"a": "b=c d"}
