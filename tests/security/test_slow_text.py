"""Text of a project or log for which a careless expression takes the square or cube of its length, or more."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from holdfast.engine.submit import git_repository
from holdfast.engine.transfer.diagnostics import _outline
from holdfast.environments import matchspec
from holdfast.environments.pyproject import declares, read_script
from holdfast.environments.requirements import read_requirements
from holdfast.errors import HoldfastError
from holdfast.redact import Redactor
from holdfast.runner.wildmatch import Globs
from holdfast.snapshot import ignore

if TYPE_CHECKING:
    from pathlib import Path

# Each took from minutes to days before.
LINES = [" " * 200_000 + "x", "a" + " " * 200_000 + "x", "a --x" + " " * 200_000, "://" * 100_000, "a[" * 100_000]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:6].strip())
def test_requirements_with_an_endless_line_are_refused_at_once(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(line)
    with pytest.raises(HoldfastError, match="longer"):
        read_requirements(str(tmp_path), "requirements.txt")
    with pytest.raises(matchspec.NotAMatchSpecError):
        matchspec.parse(line)


@pytest.mark.timeout(20)
def test_requirements_of_many_blanks_are_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(("a==1" + " " * 4000 + "\n") * 200 + "b==1   # comment\n")
    spec, _ = read_requirements(str(tmp_path), "requirements.txt")
    assert "b==1" in str(spec)


@pytest.mark.timeout(20)
def test_script_of_a_hundred_thousand_headers_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("# /// script\n" * 100_000)
    with pytest.raises(HoldfastError, match="without its end"):
        read_script(str(tmp_path), "train.py")


def test_script_header_is_read_up_to_its_end(tmp_path: Path) -> None:
    text = '# /// script\n# dependencies = ["a==1"]\n#\n# ///\nprint(1)\n# /// other\n# ///\n'
    (tmp_path / "train.py").write_text(text)
    assert "a==1" in str(read_script(str(tmp_path), "train.py")[0])


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", ["a" * 200_000, "://" * 66_000, "token" * 40_000, "/" * 200_000, "-" * 200_000])
def test_log_with_an_endless_word_is_redacted_at_once(line: str) -> None:
    assert "hunter22" not in Redactor(["hunter22"]).text(f"{line}\npassword=hunter22\n")


@pytest.mark.timeout(20)
def test_configuration_with_endless_blanks_is_outlined_at_once() -> None:
    assert _outline("address:" + " " * 100_000 + "x ,\n") == "address: ***\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        ("a==1" + " " * 4000 + "!\n") * 60,
        "a==1" + (" " * 4000 + "\\\n") * 250 + "!\n",
        ("://" * 1300 + "\\\n") * 250 + "x\n",
        "".join(f"a{number}==1\n" for number in range(60_000)),
        "a*b*c*d\n" * 60_000,
    ],
    ids=["blanks", "continued blanks", "continued slashes", "many", "many invalid"],
)
def test_repetitive_requirements_are_answered_at_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    with contextlib.suppress(HoldfastError):
        assert read_requirements(str(tmp_path), "requirements.txt")[1]


def test_requirement_with_a_hundred_continued_hashes_is_read(tmp_path: Path) -> None:
    hashes = "".join(f" \\\n    --hash=sha256:{number:064x}" for number in range(200))
    (tmp_path / "requirements.txt").write_text(f"a==1{hashes}\n")
    spec, findings = read_requirements(str(tmp_path), "requirements.txt")
    assert (len(spec.pip), findings) == (1, [])


@pytest.mark.timeout(20)
@pytest.mark.parametrize("key", [".".join(["a"] * 40_000), ".".join(["a"] * 20_000)])
def test_toml_with_an_endless_dotted_key_is_refused_at_once(tmp_path: Path, key: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"{key} = 1\n")
    (tmp_path / "train.py").write_text(f"# /// script\n# {key} = 1\n# ///\n")
    with pytest.raises(HoldfastError, match=r"longer|parts"):
        declares(str(tmp_path))
    with pytest.raises(HoldfastError, match=r"longer|parts"):
        read_script(str(tmp_path), "train.py")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line", ["[a" + " " * 300_000 + "x", "[" * 300_000, '[a "' + "\\" * 300_000, "a" * 300_000, "a=" + " " * 300_000]
)
def test_git_configuration_with_an_endless_line_is_read_at_once(tmp_path: Path, line: str) -> None:
    (tmp_path / "config").write_text(f"[core]\n{line}\n[core]\nfilemode = true\n")
    entries = list(git_repository._entries(str(tmp_path / "config"), str(tmp_path)))
    assert ("core.filemode", "true") in entries


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["**/" * 300_000 + "a\n", "a*b*c\n" * 60_000], ids=["stars", "many"])
def test_costly_ignore_file_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / ".gitignore").write_text(text)
    with pytest.raises(HoldfastError) as caught:
        ignore.explain(str(tmp_path), "x")
    assert caught.value.where.startswith(".gitignore:")


@pytest.mark.timeout(20)
def test_pattern_of_many_stars_is_compiled_at_once() -> None:
    globs = Globs()
    globs.add(0, b"", b"**/" * 300_000 + b"a", in_path=True)
    assert globs.last(b"b/a") == 0


@pytest.mark.timeout(20)
def test_fifo_in_a_folder_of_wheels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    os.mkfifo(tmp_path / "wheels" / "a-1.0-py3-none-any.whl")
    (tmp_path / "requirements.txt").write_text("--no-index\n--find-links ./wheels\na\n")
    with pytest.raises(HoldfastError, match="cannot be used") as caught:
        read_requirements(str(tmp_path), "requirements.txt")
    assert caught.value.where == "requirements.txt:2"
