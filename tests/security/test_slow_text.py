"""Text of a project or log for which a careless expression takes the square or cube of its length, or more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.engine.transfer.diagnostics import _outline
from holdfast.environments import matchspec
from holdfast.environments.pyproject import read_script
from holdfast.environments.requirements import read_requirements
from holdfast.errors import HoldfastError
from holdfast.redact import Redactor

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
