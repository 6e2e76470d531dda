from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.amlconfig.types import Finding
from holdfast.environments import pip
from holdfast.environments.read import read
from holdfast.environments.requirement import NotARequirementError, parse
from holdfast.environments.sources import Declared
from holdfast.environments.spec import Spec

FILE = "requirements.txt"


def spec_of(root: Path, text: str) -> tuple[Spec | None, list[Finding]]:
    (root / FILE).write_text(text, encoding="utf-8")
    return read(str(root), Declared(FILE, "requirements", ""))


def good(root: Path, text: str) -> Spec:
    spec, findings = spec_of(root, text)
    assert spec is not None, findings
    return spec


def test_lines_as_people_write_them(tmp_path: Path) -> None:
    text = """
# what we need
numpy >= 1.20 , < 2   # not 2 yet
Pillow
torch==2.3.1 ; sys_platform == 'linux'
pandas==2.0 \\
    --hash=sha256:bbbb \\
    --hash=sha256:aaaa
git+https://github.com/org/repo.git@v1.0#egg=My_Repo
other @ git+ssh://git@github.com/org/other@abc123#subdirectory=py
-e git+https://github.com/org/third@main#egg=third
fourth @ git+file:///srv/git/fourth.git@v2
"""
    spec = good(tmp_path, text)
    assert spec.to_json()["pip"] == [
        "fourth @ git+file:///srv/git/fourth.git@v2",
        "my-repo @ git+https://github.com/org/repo.git@v1.0",
        "numpy<2,>=1.20",
        "other @ git+ssh://git@github.com/org/other@abc123#subdirectory=py",
        "pandas==2.0 --hash=sha256:aaaa --hash=sha256:bbbb",
        "pillow",
        "third @ git+https://github.com/org/third@main",
        'torch==2.3.1 ; sys_platform == "linux"',
    ]
    assert [entry.line for entry in spec.pip] == [3, 4, 5, 6, 9, 10, 11, 12]


def test_options_as_pytorch_prints_them(tmp_path: Path) -> None:
    text = """
--index-url https://wheels.example.org/whl/cu124
--extra-index-url https://packages.example.org/simple
--extra-index-url=https://ada:pw@private.example.org/simple
-f https://wheels.example.org/whl
--find-links ./wheels
--pre
--no-index
--only-binary :all:
--no-binary numpy,scipy
--trusted-host packages.example.org
torch
"""
    spec = good(tmp_path, text)
    assert spec.pip_options.to_json() == {
        "index_url": "https://wheels.example.org/whl/cu124",
        "extra_index_urls": ["https://packages.example.org/simple", "https://ada:pw@private.example.org/simple"],
        "find_links": ["https://wheels.example.org/whl", "./wheels"],
        "no_index": True,
        "pre": True,
        "only_binary": [":all:"],
        "no_binary": ["numpy", "scipy"],
        "trusted_hosts": ["packages.example.org"],
    }
    assert spec.warnings == ()


def test_several_options_on_one_line(tmp_path: Path) -> None:
    text = (
        "--pre --extra-index-url https://wheels.example.org/whl/nightly/cu126\n-i https://a.example.org/ -f ./wheels\n"
    )
    spec = good(tmp_path, f"{text}torch\n")
    assert spec.pip_options.to_json() == {
        "index_url": "https://a.example.org/",
        "extra_index_urls": ["https://wheels.example.org/whl/nightly/cu126"],
        "find_links": ["./wheels"],
        "pre": True,
    }
    assert [entry.raw for entry in spec.option_lines][:2] == [
        "--pre",
        "--extra-index-url https://wheels.example.org/whl/nightly/cu126",
    ]


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("--require-hashes\nnumpy\n", True),
        ("numpy==1.0 --hash=sha256:aa\nscipy\n", True),
        ("numpy\n-c limits.txt\n", True),
        ("numpy\n./a-1-py3-none-any.whl\n", False),  # we know the hash of a file that is here
    ],
)
def test_a_hash_asks_for_all_hashes(tmp_path: Path, text: str, required: bool) -> None:
    (tmp_path / "a-1-py3-none-any.whl").touch()
    (tmp_path / "limits.txt").write_text("numpy==1.0 --hash=sha256:aa\n")
    assert good(tmp_path, text).pip_options.require_hashes is required


def test_other_files_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.txt").write_text("-r ../requirements.txt\nscipy\n-c limits.txt\n")
    (tmp_path / "more" / "limits.txt").write_text("numpy<2\n")
    spec = good(tmp_path, "-r more/base.txt\nnumpy\n")
    assert spec.to_json()["pip"] == ["numpy", "scipy"]
    assert spec.to_json()["constraints"] == ["numpy<2"]


def test_the_project_itself_and_what_it_requires(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "mine"\ndependencies = ["scipy>=1"]\n'
        '[project.optional-dependencies]\nDev_Tools = ["pytest"]\nother = ["black"]\n'
    )
    spec = good(tmp_path, "-e .[dev-tools]\nnumpy\n")
    assert spec.own_package
    assert spec.to_json()["pip"] == ["numpy", "pytest", "scipy>=1"]
    assert spec.warnings == ()
    _, findings = spec_of(tmp_path, "-e .[gone]\n")
    assert [(finding.severity, finding.message) for finding in findings] == [
        ("error", "this project has no extra gone")
    ]
    assert findings[0].hint == "its extras: dev-tools, other"


def test_a_setup_program_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(name='mine')\n")
    assert good(tmp_path, "-e .\n").warnings == ()
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(install_requires=['scipy'])\n")
    (warning,) = good(tmp_path, "-e .\n").warnings
    assert (warning.file, warning.message) == (
        "setup.py",
        "the requirements of this project's own package are not read from here",
    )
    spec, findings = spec_of(tmp_path, "-e .[dev]\n")
    assert spec is None
    assert findings[-1].message == "the extra dev of this project cannot be read"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-e git+ext::sh%20-c%20id", "only git over https, ssh or file"),
        ("x @ git+ext::sh", "only git over https, ssh or file"),
        ("ext::sh", "ext::sh cannot be fetched"),
        ("git+file://host/x", "only git over https, ssh or file"),
        ("git+file:///x@--upload-pack=id", "only git over https, ssh or file"),
        ("--prefer-binary", "the option --prefer-binary is not supported"),
        ("--use-feature fast-deps", "the option --use-feature is not supported"),
        ("torch --extra-index-url https://host/simple", "is not a requirement"),
        ("torch --config-settings a=b", "is not a requirement"),
        ("torch --hash=md5:00", "is not a requirement"),
        ("git+ssh://-oProxyCommand=id@host/x", "only git over https, ssh or file"),
        ("git+ssh://a@-oProxyCommand=id/x", "only git over https, ssh or file"),
        ("git+https://host/x@--upload-pack=id", "only git over https, ssh or file"),
        ("hg+https://host/x", "cannot be fetched"),
        ("-r ../outside.txt", "is not a file of this project"),
        ("-r https://host/requirements.txt", "is not a file of this project"),
        ("-r gone.txt", "gone.txt does not exist"),
        ("-e ../other", "only this project itself can be installed by -e"),
        ("-e", "only this project itself can be installed by -e, not an empty path"),
        ("-e [dev]", "only this project itself can be installed by -e, not [dev]"),
        ("--global-option=--x", "the option --global-option is not supported"),
        ("--index-url $(id)", "takes an http, https or file address"),
        ("-f /opt/wheels", "/opt/wheels is outside the project"),
        ("file:///opt/a-1-py3-none-any.whl", "is outside the project"),
        ("./src", "src is a folder"),
        ("numpy; touch x", "is not a requirement"),
        ("x @ https://host/${AWS_SECRET_ACCESS_KEY}/x-1-py3-none-any.whl", "environment variables are not expanded"),
        ("https://${TOKEN}@host/x-1-py3-none-any.whl", "environment variables are not expanded"),
        ("git+https://${TOKEN}@host/x@main", "environment variables are not expanded"),
        ("./${HOME}/x-1-py3-none-any.whl", "environment variables are not expanded"),
        ("--index-url https://host/${TOKEN}/simple", "environment variables are not expanded"),
        ("--extra-index-url https://${TOKEN}@host/simple", "environment variables are not expanded"),
        ("-f https://host/${TOKEN}/", "environment variables are not expanded"),
    ],
)
def test_unsupported_requirement_lines_are_refused(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path.parent / "outside.txt").write_text("numpy\n")
    spec, findings = spec_of(tmp_path, f"scipy\n{line}\n")
    assert spec is None
    (error,) = [finding for finding in findings if finding.severity == "error"]
    assert message in error.message
    assert (error.line, error.column) == (2, 1)


def test_a_stated_hash_of_a_local_file_is_compared(tmp_path: Path) -> None:
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    spec = good(tmp_path, f"./a-1-py3-none-any.whl --hash=sha256:{empty}\n")
    assert spec.to_json()["pip"] == [f"./a-1-py3-none-any.whl --hash=sha256:{empty}"]
    spec, findings = spec_of(tmp_path, "./a-1-py3-none-any.whl --hash=sha256:00\n")  # type: ignore[assignment]
    assert spec is None
    assert "does not match the given hash" in findings[0].message


def test_marker_that_nests_without_end_is_refused() -> None:
    with pytest.raises(NotARequirementError, match="nests too deeply"):
        parse("a; " + "(" * 5000 + 'os_name == "x"' + ")" * 5000)


def test_short_option_may_touch_its_value() -> None:
    assert pip._split_option("-fhttps://a") == pip._split_option("-f https://a") == ("--find-links", "https://a")
