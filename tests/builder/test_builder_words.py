from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.builder.failure import Failed, from_output
from holdfast.builder.hashes import completed
from holdfast.builder.requirement_lines import check_pinned, name_of, requirement_lines
from holdfast.builder.scrubbing import scrub
from holdfast.builder.sizes import files_in, total

PLAIN = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://ada:s3cret@host/simple/", "https://host/simple/"),
        ("git+https://token@host/a.git@main", "git+https://host/a.git@main"),
        ("get 'http://host/a.whl?sig=abc&x=1#sha256=12' now", "get 'http://host/a.whl#sha256=12' now"),
        ("(http://host/a.whl?sig=abc) failed", "(http://host/a.whl) failed"),
        ('{"url":"https://u:p@h/a?b"}', '{"url":"https://h/a"}'),
        ("https://conda.example.org/t/tk-123/chan/linux-64", "https://conda.example.org/chan/linux-64"),
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


def test_package_without_a_hash_is_refused() -> None:
    with pytest.raises(Failed, match=r"no hash is available for bare==1\.0") as caught:
        completed(["bare==1.0"], {"source": "requirements.txt"}, "")
    assert (caught.value.kind, caught.value.where) == ("hash", "requirements.txt")


@pytest.mark.parametrize(
    ("platform", "size"),
    [("linux-64", 100 + 7), ("osx-arm64", 300 + 7), ("linux-aarch64", 0 + 7), ("linux-ppc64le", 300 + 7)],
)
def test_sizes_are_those_of_the_platform(platform: str, size: int) -> None:
    """As uv.lock and as pylock.toml write it: wheels for two systems with a source, and a source alone."""
    locked = f"""
    sdist = {{ url = "https://host/a-1.tar.gz", hash = "sha256:{"1" * 64}", size = 900 }}
    wheels = [
        {{ url = "https://host/a-1-cp311-cp311-manylinux1_x86_64.whl", hash = "sha256:{"2" * 64}", size = 100 }},
        {{ url = "https://host/a-1-cp311-cp311-macosx_11_0_arm64.whl", hash = "sha256:{"3" * 64}", size = 300 }},
    ]
    sdist = {{ url = "https://host/b-1.tar.gz", upload-time = 1, size = 7, hashes = {{ sha256 = "{"4" * 64}" }} }}
    wheels = [{{ url = "https://host/c-1-py3-none-any.whl", hashes = {{ sha256 = "{"5" * 64}" }} }}]
    """
    lines = ["a==1" + "".join(f" --hash=sha256:{each * 64}" for each in "123"), f"b==1 --hash=sha256:{'4' * 64}"]
    lines += [f"c==1 --hash=sha256:{'5' * 64}", f"d @ git+https://host/d@{'0' * 40}"]
    assert total(lines, files_in(locked), platform) == size


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
        ([], "internal", "it ended without a message"),
    ],
)
def test_a_tools_last_words(told: list[str], kind: str, what: str) -> None:
    failed = from_output(told, "here")
    assert failed.kind == kind
    assert failed.what.startswith(what)
