from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.environments.secrets import restored, scrub

WORDS = st.text("abcXYZ019-_.~%", min_size=1, max_size=12)
BEFORE = st.sampled_from(["", "error: ", "- ", '"', "'", "(see ", "pkg @ ", "--index-url "])
AFTER = st.sampled_from(["", " failed", '"', "',", "#egg=x", "\nnext line"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://ada:hunter2@host/simple", "https://host/simple"),
        ("https://ghp_token@host/x.git@v1", "https://host/x.git@v1"),
        ("https://host/a.whl?sv=1&sig=x%3D#egg=a", "https://host/a.whl#egg=a"),
        ("git+https://u:p@host/r.git@main#subdirectory=s", "git+https://host/r.git@main#subdirectory=s"),
        ("one https://u:p@a two http://b?k=v three", "one https://a two http://b three"),
        ("https://a,https://u:p@b/x", "https://a,https://b/x"),
        ("'https://host/x?sig=it's', 'more'", "'https://host/x', 'more'"),
        (r"https:\/\/u:p@host\/x?sig=1", r"https:\/\/host\/x"),
        (r"https://host/x?a=1\u0026sig=2 end", "https://host/x end"),
        ("GET /a.whl?sig=abc HTTP/1.1", "GET /a.whl HTTP/1.1"),
        ("https://conda.example.org/t/ab-0123456789/mine", "https://conda.example.org/mine"),
        ("https://host/p?next=https://u:p@other/", "https://host/p"),
        ("https://a@b:c@host/", "https://host/"),
        ("is it there? yes=no", "is it there? yes=no"),
        ("mail ada@example.org about a/b?", "mail ada@example.org about a/b?"),
    ],
)
def test_scrub(text: str, clean: str) -> None:
    assert scrub(text) == clean
    assert scrub(clean) == clean


@given(BEFORE, WORDS, WORDS, WORDS, AFTER)
def test_no_secret_survives_and_the_rest_is_unchanged(
    before: str, user: str, secret: str, path: str, after: str
) -> None:
    bare = f"{before}https://host.example/{path}{after}"
    assert scrub(bare) == bare
    assert scrub(f"{before}https://{user}:{secret}@host.example/{path}?sig={secret}&x={user}{after}") == bare


def test_json_stays_json() -> None:
    text = json.dumps({"url": "https://u:p@host/x?sig=1", "next": "kept"})
    assert json.loads(scrub(text)) == {"url": "https://host/x", "next": "kept"}


def test_what_was_taken_out_is_put_back_from_the_file() -> None:
    known = ["a @ https://u:p@host/a.whl?sig=1", "b==1"]
    assert restored("a @ https://host/a.whl --hash=sha256:00", known) == (
        "a @ https://u:p@host/a.whl?sig=1 --hash=sha256:00"
    )
    assert restored("a @ https://host/a.whl.asc", known) == "a @ https://host/a.whl.asc"


@pytest.mark.parametrize(
    ("known", "locked", "whole"),
    [
        (
            "x @ git+https://tok@host/r.git@main#subdirectory=s",
            f"x @ git+https://host/r.git@{'0' * 40}#subdirectory=s",
            f"x @ git+https://tok@host/r.git@{'0' * 40}#subdirectory=s",
        ),
        ("x @ git+ssh://git@host/r", f"x @ git+ssh://host/r@{'0' * 40}", f"x @ git+ssh://git@host/r@{'0' * 40}"),
        ("http://u:p@host/chan", "http://host/chan/noarch/a-1-0.conda", "http://u:p@host/chan/noarch/a-1-0.conda"),
        ("http://u:p@host/chan", "http://host/channel/noarch/a-1-0.conda", "http://host/channel/noarch/a-1-0.conda"),
        (
            "http://host/t/ab-12/chan",
            "http://host/chan/noarch/a-1-0.conda",
            "http://host/t/ab-12/chan/noarch/a-1-0.conda",
        ),
        ("--index-url http://u:p@host/simple/", "http://host/simple/", "http://u:p@host/simple/"),
    ],
)
def test_what_a_lock_says_otherwise_than_the_file(known: str, locked: str, whole: str) -> None:
    assert restored(locked, [known]) == whole
    assert scrub(whole) == locked
