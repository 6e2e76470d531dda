from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.environments.lock import (
    CondaPackage,
    Lock,
    env_key,
    from_json,
    from_text,
    lock_file,
    matches,
    needs_project,
    to_text,
)
from holdfast.environments.spec import Interpreter, PipOptions
from holdfast.errors import ConfigError

PACKAGE = CondaPackage("zlib", "1.3", "h0_1", "https://host/t/ab-0123456789/linux-64/zlib-1.3-h0_1.conda", "a" * 64, 12)
LOCK = Lock(
    spec="b" * 64,
    platform="linux-64",
    python=Interpreter("3.11.7", "conda h1"),
    conda=(PACKAGE, PACKAGE._replace(name="attr")),
    pip=("x==1 --hash=sha256:00", "a @ https://u:p@host/a-1-py3-none-any.whl?sig=canary --hash=sha256:11"),
    pip_options=PipOptions(index_url="https://u:p@host/simple", extra_index_urls=("https://more/?t=canary",), pre=True),
    own_package=True,
    builder="uv 1, py-rattler 2",
)
CONTENT: dict[str, Any] = json.loads(to_text(LOCK))


def test_a_lock_comes_back_without_its_secrets() -> None:
    text = to_text(LOCK)
    assert "canary" not in text
    assert "u:p" not in text
    assert "0123456789" not in text
    again = from_text(text, "a.lock")
    assert to_text(again) == text
    assert again.pip == ("a @ https://host/a-1-py3-none-any.whl --hash=sha256:11", "x==1 --hash=sha256:00")
    assert again.pip_options == PipOptions(
        index_url="https://host/simple", extra_index_urls=("https://more/",), pre=True
    )
    assert [package.name for package in again.conda] == ["attr", "zlib"]
    assert again.python == LOCK.python


def test_lock_has_these_parts_and_this_file_name() -> None:
    parts = ["v", "spec", "platform", "python", "conda", "pip", "pip_options", "pip_bytes", "own_package", "builder"]
    assert list(CONTENT) == parts
    assert list(CONTENT["conda"][0]) == ["name", "version", "build", "url", "sha256", "size"]
    assert lock_file("gpu") == "aml_config/gpu.lock"


def test_the_key_of_an_environment() -> None:
    key = env_key(LOCK, "/home/ada/.holdfast/envs")
    assert len(key) == 32
    shuffled = LOCK._replace(conda=LOCK.conda[::-1], pip=LOCK.pip[::-1])
    assert env_key(shuffled, "/home/ada/.holdfast/envs") == key
    assert env_key(LOCK._replace(spec="c" * 64, pip_bytes=7), "/home/ada/.holdfast/envs") == key
    assert env_key(LOCK, "/data/envs") != key
    for change in (
        {"builder": "uv 2"},
        {"python": Interpreter("3.11.7", "other")},
        {"pip": LOCK.pip[:1]},
        {"conda": (PACKAGE,)},
        {"platform": "osx-64"},
        {"own_package": False},
    ):
        assert env_key(LOCK._replace(**change), "/home/ada/.holdfast/envs") != key


def test_whether_a_lock_is_for_a_spec() -> None:
    assert matches(LOCK, "b" * 64)
    assert not matches(LOCK, "c" * 64)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec",), "../../x"),
        (("platform",), "linux-64\n"),
        (("python",), []),
        (("python", "version"), None),
        (("conda",), {}),
        (("conda", 0, "name"), "../x"),
        (("conda", 0, "url"), "ext::sh"),
        (("conda", 0, "url"), "https://host/x.sh"),
        (("conda", 0, "sha256"), "0"),
        (("conda", 0, "size"), -1),
        (("conda", 0, "size"), True),
        (("pip",), "x==1"),
        (("pip", 0), "$(touch x)"),
        (("pip", 0), "--index-url x"),
        (("pip", 0), "x==1"),
        (("pip", 0), "x>=1 --hash=sha256:00"),
        (("pip", 0), 3),
        (("pip", 0), "x @ git+ext::sh"),
        (("pip", 0), "x @ git+https://host/x@--upload-pack=id"),
        (("pip", 0), "./../../x-1-py3-none-any.whl --hash=sha256:00"),
        (("pip_bytes",), "many"),
        (("pip_options", "config"), "x"),
        (("pip_options", "index_url"), ["x"]),
        (("pip_options", "pre"), "yes"),
        (("own_package",), 1),
        (("builder",), "\x1b[31m"),
    ],
)
def test_a_hostile_lock(path: tuple[str | int, ...], value: object) -> None:
    content = copy.deepcopy(CONTENT)
    place: Any = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ConfigError, match=r"a.lock: this lock is damaged or was not written by Holdfast") as caught:
        from_json(content, "a.lock")
    assert caught.value.answer


@pytest.mark.parametrize("name", sorted(set(CONTENT) - {"pip_bytes"}))
def test_a_lock_without_one_of_its_parts(name: str) -> None:
    with pytest.raises(ConfigError):
        from_json({key: value for key, value in CONTENT.items() if key != name}, "a.lock")


def test_sizes_came_later() -> None:
    older = {key: value for key, value in CONTENT.items() if key != "pip_bytes"}
    assert from_json(older, "a.lock") == from_json(CONTENT, "a.lock")


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({"own_package": True}, True),
        ({"pip": ("./wheels/a-1-py3-none-any.whl --hash=sha256:00",)}, True),
        ({"pip_options": PipOptions(find_links=("./wheels",))}, True),
        ({"pip_options": PipOptions(find_links=("https://host/wheels",))}, False),
    ],
)
def test_whether_it_is_installed_from_the_project(change: dict[str, Any], needed: bool) -> None:
    assert needs_project(LOCK._replace(**{"own_package": False, **change})) is needed


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "1e999", '{"v": NaN}', "\x00"])
def test_no_locks(text: str) -> None:
    with pytest.raises(ConfigError):
        from_text(text, "a.lock")


def test_a_newer_lock() -> None:
    with pytest.raises(ConfigError, match="made by a newer Holdfast"):
        from_json({**CONTENT, "v": 2}, "a.lock")


@settings(max_examples=150)
@given(st.integers(0, len(to_text(LOCK)) - 1), st.text(max_size=3))
def test_a_damaged_text_is_a_lock_or_an_error(at: int, junk: str) -> None:
    text = to_text(LOCK)
    assert _is_lock_or_error(text[:at] + junk + text[at + 1 :])


def _is_lock_or_error(text: str) -> bool:
    try:
        return isinstance(from_text(text, "a.lock"), Lock)
    except ConfigError as error:
        return error.where == "a.lock"
