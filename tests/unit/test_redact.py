"""Secrets are removed from text."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from holdfast.redact import GONE, Redactor, is_secret_name, words

SECRET = 'p@ss "word/1'


@pytest.mark.parametrize(
    "text",
    [
        f"it is {SECRET}!",
        json.dumps({"x": SECRET}),
        quote(SECRET),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        SECRET.encode().hex(),
        repr(SECRET),
    ],
)
def test_a_known_secret_goes_in_every_spelling(text: str) -> None:
    told = Redactor([SECRET]).text(f"before {text} after")
    assert "word" not in told
    assert "cEBzcyAid29yZC8x" not in told
    assert "70407373" not in told
    assert told.startswith("before ")
    assert told.endswith(" after")


@pytest.mark.parametrize(
    "text",
    [
        "password: canary",
        "DB_PASSWORD=canary",
        '"apiKey": "canary and more"',
        "--api-key canary",
        "--token=canary",
        "Authorization: Bearer canary-canary",
        "https://ada:canary@example.org/simple",
        "https://example.org/x?sig=canary",
        "https://example.org/t/canary/channel",
        "AccountKey=canary;EndpointSuffix=x",
        "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\ncanary without an end",
        "ghp_canarycanarycanarycanary12",
        "sk-canarycanarycanary",
        "hf_canarycanarycanarycanary",
        "eyJcanary000.eyJcanary000.canary",
    ],
)
def test_what_looks_like_a_secret_goes(text: str) -> None:
    assert "canary" not in Redactor([]).text(f"x {text} y")


@pytest.mark.parametrize(
    "text",
    ["loss 0.123 at step 14584", "a monkey ate the keyboard", '{"seq":1,"type":"started","pid":14451}', "tokenizer"],
)
def test_plain_text_stays(text: str) -> None:
    assert Redactor(["1458", "0.123"]).text(text) == text


def test_names() -> None:
    for name in ("API_KEY", "DB_PASSWORD", "sasToken", "secret", "AWS_SECRET_ACCESS_KEY", "aws.session-token", "KEY"):
        assert is_secret_name(name), name
    for name in ("PATH", "PWD", "KEYBOARD", "monkey", "TOKENIZERS_PARALLELISM", "LANG", "author"):
        assert not is_secret_name(name), name


def test_values_in_json() -> None:
    found = Redactor(["canary-value"]).value({"password": "x", "a": [{"b": "has canary-value"}], "n": 3})
    assert found == {"password": GONE, "a": [{"b": f"has {GONE}"}], "n": 3}


def test_a_command_line_keeps_the_names_of_its_options() -> None:
    shown, gone = words(["train.py", "--lr", "0.1", "--key=x", "-v", "-5", "-"])
    assert shown == [GONE, "--lr", GONE, f"--key={GONE}", "-v", GONE, GONE]
    assert gone == ["train.py", "0.1", "x", "-5", "-"]


def test_the_home_folder_is_not_told() -> None:
    assert Redactor([], "/home/ada").text("in /home/ada/x, not /home/adam") == "in ~/x, not /home/adam"
