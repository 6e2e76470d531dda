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


def test_known_secrets_of_five_characters_go_and_shorter_ones_stay() -> None:
    assert Redactor(["abcde"]).text("abcde, xabcdex, abcd") == f"{GONE}, x{GONE}x, abcd"
    assert Redactor(["abcd"]).text("abcd") == "abcd"


def test_known_numbers_of_ten_digits_go_and_shorter_ones_stay() -> None:
    assert Redactor(["1234567890"]).text("id 1234567890") == f"id {GONE}"
    assert Redactor(["123456789"]).text("id 123456789") == "id 123456789"


def test_long_words_of_a_known_secret_go_alone_too() -> None:
    redactor = Redactor(["connect ada:longword@short77 password"])
    assert redactor.text("longword short77 password") == f"{GONE} short77 password"


def test_several_known_secrets_go_from_one_text() -> None:
    redactor = Redactor(["first-one", "first-one-longer", "other"])
    assert redactor.text("a first-one-longer b first-one c other") == f"a {GONE} b {GONE} c {GONE}"
    assert redactor.text("otherother other") == f"{GONE}{GONE} {GONE}"


def test_secret_goes_as_json_python_and_form_write_it() -> None:
    redactor = Redactor(["\tnew é one"])
    for spelling in ("\\tnew \\u00e9 one", "\\tnew é one", "%09new+%C3%A9+one", "%09new%20%C3%A9%20one"):
        assert redactor.text(f"<{spelling}>") == f"<{GONE}>"


def test_text_without_blanks_of_more_than_a_thousand_characters_goes() -> None:
    redactor = Redactor([])
    assert redactor.text("a " + "x" * 1000) == "a " + "x" * 1000
    assert redactor.text("a " + "x" * 1001) == f"a {GONE}"


def test_home_folder_needs_more_than_one_character() -> None:
    assert Redactor([], "/").text("/ and /etc/x/") == "/ and /etc/x/"
    assert Redactor([], "/r").text("/r/x") == "~/x"


def test_only_text_goes_under_the_name_of_a_secret() -> None:
    assert Redactor([]).value({"token": 5, "tokens": {"a": "b"}, "PWD": "/x"}) == {
        "token": 5,
        "tokens": {"a": "b"},
        "PWD": "/x",
    }
    assert not is_secret_name("OLDPWD")
