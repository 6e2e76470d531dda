"""``dockerArguments``: what each word means is held against the engines' own help, where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.amlconfig import docker_arguments
from holdfast.amlconfig.docker_arguments import ENGINES, FLAGS, RESERVED, SHORT, remarks

LETTERS = {long: short for short, long in SHORT.items()}
NAMES = st.sampled_from(sorted({*ENGINES, *RESERVED, *SHORT, "--", "-", "-P", "--use-api-socket"}))
VALUES = st.sampled_from(["host", "all", "/:/x", "=", "-1", "true", "--rm", "-d", "", "a=b"]) | st.text(max_size=4)
WORDS = st.lists(NAMES | VALUES | st.builds("{}={}".format, NAMES, VALUES) | st.builds("{}{}".format, NAMES, VALUES))
ENGINE = st.sampled_from([None, "docker", "podman"])
SINCE = {("docker", "--annotation"): 24}  # the first version that has an option, where older ones are in use


def errors(*words: str, engine: str | None = None) -> list[tuple[int, str, str]]:
    return [(found.word, found.message, found.hint) for found in remarks(words, engine) if found.severity == "error"]


def warnings(*words: str) -> str:
    assert errors(*words) == []
    return "\n".join(remark.message for remark in remarks(words, None))


def understood(words: list[str]) -> tuple[set[str], list[str]]:
    """The options that an engine takes from these words, and what it takes for image and command."""
    taken: set[str] = set()
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        if word.startswith("--"):
            name, has_value, _ = word.partition("=")
            taken.add(name)
            if not has_value and name not in FLAGS and rest:
                rest.pop(0)
            continue
        name = SHORT.get(word[:2], word[:2])
        taken.add(name)
        if len(word) == 2 and rest:
            rest.pop(0)
    return taken, rest


@settings(deadline=None)
@given(WORDS, ENGINE)
@example(["--cap-add", "--privileged"], None)
@example(["--volume"], None)
@example(["--read-only", "x"], None)
@example(["-hx", "-v", "-d"], None)
def test_accepted_words_hold_listed_options_and_nothing_else(words: list[str], engine: str | None) -> None:
    if any(remark.severity == "error" for remark in remarks(words, engine)):
        return
    taken, rest = understood(words)
    assert rest == []
    assert {name for name in taken if name not in ENGINES} == set()
    assert {name for name in taken if len(ENGINES[name]) == 1 and ENGINES[name][0] != engine} == set()
    assert all(word.isprintable() for word in words)


@settings(deadline=None)
@given(st.lists(st.text()), ENGINE)
def test_any_words_are_answered(words: list[str], engine: str | None) -> None:
    for remark in remarks(words, engine):
        assert 0 <= remark.word < len(words)
        assert remark.message


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_the_engines_know_these_options_as_we_do(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"NOT TESTED: there is no {program} here")
    told = subprocess.run([program, "run", "--help"], capture_output=True, text=True, check=True).stdout
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    major = int(version.split()[2].partition(".")[0])
    rows = re.findall(r"^ {2}(-\w)?,? +(--[\w-]+)( [^\s]+)? {2,}", told, re.MULTILINE)
    known = {long: bool(kind) for _, long, kind in rows}
    assert len(known) > 50
    ours = {name: name not in FLAGS for name, engines in ENGINES.items() if program in engines}
    ours = {name: kind for name, kind in ours.items() if SINCE.get((program, name), 0) <= major}
    assert {name: known.get(name) for name in ours} == ours
    letters = {long: short for short, long, _ in rows if short and (long in ours or long in RESERVED)}
    assert {long: short for long, short in letters.items() if LETTERS.get(long, "-P") != short} == {}


def test_every_option_that_may_be_used_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [name for name in sorted(ENGINES) if f"`{name}`" not in page] == []


def test_no_option_is_both_ours_and_theirs() -> None:
    assert set(ENGINES) & set(RESERVED) == set()
    assert set(SHORT.values()) <= {*ENGINES, *RESERVED}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_what_is_ours_is_refused_in_every_spelling(name: str) -> None:
    spellings: list[tuple[str, ...]] = [(name,), (f"{name}=x",), (name, "x")]
    if name in LETTERS:
        spellings += [(LETTERS[name],), (f"{LETTERS[name]}x",), (LETTERS[name], "x")]
    for words in spellings:
        [(word, message, hint)] = errors(*words)
        assert (word, hint) == (0, RESERVED[name])
        assert (
            message
            == f"{words[0].partition('=')[0] if words[0][1] == '-' else words[0][:2]} is not allowed in dockerArguments"
        )


def test_values_of_refused_options_are_not_repeated() -> None:
    said = str([*errors("-eTOKEN=hunter2"), *errors("--env=TOKEN=hunter2"), *errors("-e", "TOKEN=hunter2")])
    assert "hunter2" not in said


def test_a_mistyped_option_is_pointed_out() -> None:
    [(word, message, hint)] = errors("--read-only", "--cap-ad=SYS_PTRACE", "--ulimit", "nofile=9")
    assert word == 1
    assert message == "--cap-ad is not a supported option"
    assert "--cap-add" in hint


def test_options_of_one_engine_need_that_engine() -> None:
    assert errors("--cgroups=disabled", engine="podman") == []
    [(_, message, hint)] = errors("--cgroups=disabled")
    assert message == "--cgroups is an option of podman only"
    assert hint == "write engine: podman in the .compute file"
    assert errors("--storage-opt", "size=10G", engine="docker") == []
    assert len(errors("--storage-opt", "size=10G", engine="podman")) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--privileged=false",),
        ("--pid", "private"),
        ("--ipc=shareable",),
        ("--cap-add=SYS_PTRACE",),
        ("--cap-drop=ALL",),
        ("--security-opt", "no-new-privileges"),
        ("--device=/dev/fuse",),
        ("--device", "/dev/infiniband/uverbs0"),
        ("-v", "/data:/data"),
        ("-v", "cache:/etc"),
        ("--mount=type=tmpfs,target=/x",),
        ("--device-cgroup-rule", "c 10:229 rwm"),
    ],
)
def test_harmless_options_draw_no_warning(words: tuple[str, ...]) -> None:
    assert warnings(*words) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--privileged",), "has root privileges"),
        (("--privileged=1",), "has root privileges"),
        (("--pid=host",), "every process"),
        (("--ipc", "host"), "shmSize"),
        (("--uts=host",), "name"),
        (("--userns=host",), "ids"),
        (("--cap-add=ALL",), "root"),
        (("--cap-add", "CAP_SYS_ADMIN"), "root"),
        (("--security-opt=apparmor:unconfined",), "isolation"),
        (("--security-opt", "label=disable"), "isolation"),
        (("--device=/dev/nvme0n1p1:/dev/x:r",), "everything on it"),
        (("--device=/dev/mem",), "everything on it"),
        (("-v/var/run/docker.sock:/s",), "socket"),
        (("--mount", "type=bind,src=/run/user/1000/podman/podman.sock,dst=/s"), "socket"),
        (("-v", "/:/machine:ro"), "/ of the machine"),
        (("-v=/var/../etc/:/x",), "/etc of the machine"),
        (("--device-cgroup-rule=a *:* rwm",), "disks"),
    ],
)
def test_what_gives_the_machine_away_is_said(words: tuple[str, ...], said: str) -> None:
    assert said in warnings(*words)


def test_unknown_option_gets_up_to_three_near_names() -> None:
    assert docker_arguments._near("--net") == "did you mean --net or --name or --init?"
