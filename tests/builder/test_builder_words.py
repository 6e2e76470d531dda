from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.builder.failure import from_output
from holdfast.builder.requirement_lines import check_pinned, name_of, requirement_lines
from holdfast.builder.scrubbing import scrub

PLAIN = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://ada:s3cret@host/simple/", "https://host/simple/"),
        ("git+https://token@host/a.git@main", "git+https://host/a.git@main"),
        ("get 'http://host/a.whl?sig=abc&x=1#sha256=12' now", "get 'http://host/a.whl#sha256=12' now"),
        ("(http://host/a.whl?sig=abc) failed", "(http://host/a.whl) failed"),
        ('{"url":"https://u:p@h/a?b"}', '{"url":"https://h/a"}'),
        ("https://conda.example.org/t/tk-123/chan/linux-64", "https://conda.example.org/t/***/chan/linux-64"),
        ("is it user@host? yes", "is it user@host? yes"),
    ],
)
def test_secrets_leave_urls(before: str, after: str) -> None:
    assert scrub(before) == after


@given(PLAIN, PLAIN, PLAIN)
def test_no_password_and_no_query_survives(user: str, path: str, query: str) -> None:
    secret = f"{user}SECRET"
    assert scrub(f"see https://me:{secret}@host/{path}?q={query}{secret}, ok") == f"see https://host/{path} ok"


def test_requirements_stand_on_one_line_with_their_hashes() -> None:
    printed = (
        "# made by\n--index-url http://x\na==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\nb @ http://x/b.whl\n"
    )
    assert requirement_lines(printed) == ["a==1 --hash=sha256:1 --hash=sha256:2", "b @ http://x/b.whl"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Scikit_Learn[extra]>=1 ; python_version > '3'", "scikit-learn"),
        ("tinydep @ http://host/other-0.5-py3-none-any.whl", "tinydep"),
        ("./wheels/Tiny.pip-1.1-py3-none-any.whl", "tiny-pip"),
        ("http://host/a/cntk_gpu-2.5.1-cp36-cp36m-linux_x86_64.whl?sig=a", "cntk-gpu"),
    ],
)
def test_every_line_has_a_name(line: str, name: str) -> None:
    assert name_of(line) == name


def test_what_could_change_is_not_pinned() -> None:
    check_pinned([f"a @ git+https://host/a.git@{'0' * 40}", "b==1 --hash=sha256:12"])
    for loose in ("a==1", "a @ git+https://host/a.git@main", "a @ https://host/a.whl"):
        with pytest.raises(Exception, match="no hash"):
            check_pinned([loose])


@pytest.mark.parametrize(
    ("told", "kind", "what"),
    [
        (
            ["error: No solution found", "  cause: Because a", "         and b."],
            "unsatisfiable",
            "No solution found: Because a and b.",
        ),
        (
            ["error: Failed to fetch: http://h/", "  cause: dns error"],
            "unreachable",
            "Failed to fetch: http://h/: dns error",
        ),
        (["error: Failed to build `a`", "  cause: No space left on device (os error 28)"], "disk", "Failed to build"),
        (["something else"], "internal", "something else"),
        ([], "internal", "it ended without a word"),
    ],
)
def test_a_tools_last_words(told: list[str], kind: str, what: str) -> None:
    failed = from_output(told, "here")
    assert failed.kind == kind
    assert failed.what.startswith(what)
