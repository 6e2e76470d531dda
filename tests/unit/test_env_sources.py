from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.amlconfig import RunConfig
from holdfast.amlconfig.types import Finding
from holdfast.environments.read import read
from holdfast.environments.sources import find
from holdfast.environments.spec import Spec
from holdfast.errors import ConfigError

PROJECT = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["numpy"]\n'
IN_ORDER = {
    "aml_config/conda_dependencies.yml": "",
    "environment.yml": "dependencies: [python=3.11]\n",
    "environment.yaml": "dependencies: [python=3.11]\n",
    "conda.yaml": "dependencies: [python=3.11]\n",
    "uv.lock": 'version = 1\nrequires-python = ">=3.11"\n',
    "pylock.toml": 'lock-version = "1.0"\n',
    "pyproject.toml": PROJECT,
    "requirements.txt": "numpy\n",
    "train.py": '# /// script\n# dependencies = ["numpy"]\n# ///\n',
}


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def found_in(root: Path, config: RunConfig | None = None) -> str | None:
    declared = find(str(root), config, "train.py")
    return declared.file if declared else None


def read_found(root: Path) -> tuple[Spec | None, list[Finding]]:
    declared = find(str(root), None, "train.py")
    assert declared is not None
    return read(str(root), declared)


def test_the_first_in_the_documented_order_declares(tmp_path: Path) -> None:
    for name, text in IN_ORDER.items():
        write(tmp_path, name, text)
    for name in IN_ORDER:
        assert found_in(tmp_path) == name
        (tmp_path / name).unlink()
    assert found_in(tmp_path) is None


def test_first_file_that_names_a_package_declares_in_a_folder_without_aml_config(tmp_path: Path) -> None:
    names = ["train.py", "uv.lock", "pylock.toml", "pyproject.toml", "requirements.txt"]
    names += ["environment.yml", "environment.yaml", "conda.yaml", "conda_dependencies.yml"]
    for name in names:
        write(tmp_path, name, IN_ORDER.get(name, "dependencies: [numpy]\n"))
    for name in names:
        assert found_in(tmp_path) == name
        (tmp_path / name).unlink()
    assert found_in(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", "# /// script\n# dependencies = []\n# ///\n"),
        ("train.py", "print('# /// script')\n"),
        ("pyproject.toml", "[tool.ruff]\nline-length = 120\n"),
        ("pyproject.toml", '[project]\nname = "x"\nversion = "1"\ndependencies = []\n'),
        ("requirements.txt", ""),
        ("requirements.txt", "# numpy\n\n--index-url https://example.org/simple\n-c limits.txt\n"),
        ("environment.yml", "name: x\n"),
    ],
)
def test_file_without_a_package_is_passed_over(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    assert found_in(tmp_path) is None
    write(tmp_path, "conda_dependencies.yml", "dependencies: [numpy]\n")
    assert found_in(tmp_path) == "conda_dependencies.yml"


@pytest.mark.parametrize("line", ["numpy", "-r more.txt", "-rmore.txt", "-e .", "--editable=.", "./wheels/x.whl"])
def test_line_of_requirements_that_asks_for_a_package(tmp_path: Path, line: str) -> None:
    write(tmp_path, "requirements.txt", f"--no-index\n{line}\n")
    assert found_in(tmp_path) == "requirements.txt"


@pytest.mark.parametrize("name", IN_ORDER)
def test_each_of_them_can_be_read_alone(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, IN_ORDER[name])
    if name == "uv.lock":
        write(tmp_path, "pyproject.toml", PROJECT)
    spec, findings = read_found(tmp_path)
    assert findings == []
    assert spec is not None
    assert (spec.source, spec.kind) == (name, "pip")


def test_a_run_configuration_names_its_own_file(tmp_path: Path) -> None:
    write(tmp_path, "aml_config/conda_dependencies.yml", "")
    write(tmp_path, "envs/gpu.yml", "")
    assert found_in(tmp_path, RunConfig("gpu", conda_dependencies_file="envs/gpu.yml")) == "envs/gpu.yml"
    assert found_in(tmp_path, RunConfig("gpu")) == "aml_config/conda_dependencies.yml"


def test_a_named_file_that_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "numpy")
    config = RunConfig("gpu", conda_dependencies_file="envs/gpu.yml")
    with pytest.raises(ConfigError, match=r"envs/gpu.yml, which run configuration gpu names"):
        find(str(tmp_path), config, "train.py")
    by_default = RunConfig("local", conda_dependencies_file="aml_config/conda_dependencies.yml")
    assert found_in(tmp_path, by_default) == "requirements.txt"


def test_a_pyproject_that_only_configures_tools_declares_nothing(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[tool.ruff]\nline-length = 120\n")
    assert found_in(tmp_path) is None
    write(tmp_path, "pyproject.toml", '[project]\nname = "x"\nversion = "1"\n')
    assert found_in(tmp_path) is None
    write(tmp_path, "src/x/__init__.py", "")
    assert found_in(tmp_path) == "pyproject.toml"


def test_second_declaration_beside_an_empty_one_gives_a_warning(tmp_path: Path) -> None:
    write(tmp_path, "aml_config/conda_dependencies.yml", "dependencies:\n- python=3.11\n")
    write(tmp_path, "requirements.txt", "numpy")
    spec, (finding,) = read_found(tmp_path)
    assert spec is not None
    assert spec.warnings == (finding,)
    assert finding.message == "declares no packages, and comes before requirements.txt, which is not read"
    write(tmp_path, "aml_config/conda_dependencies.yml", "dependencies:\n- python=3.11\n- pip: [numpy]\n")
    assert read_found(tmp_path)[1] == []


def test_pyproject(tmp_path: Path) -> None:
    text = """
[build-system]
requires = ["hatchling"]
[project]
name = "my.Model"
version = "1"
requires-python = ">=3.10, <3.13"
dependencies = [
  "NumPy>=1.2",
  "torch",
]
[[tool.uv.index]]
name = "pytorch"
url = "https://download.pytorch.org/whl/cu124"
[tool.uv.sources]
torch = { index = "pytorch" }
"""
    write(tmp_path, "pyproject.toml", text)
    spec, findings = read_found(tmp_path)
    assert findings == []
    assert spec is not None
    assert spec.to_json() == {
        "source": "pyproject.toml",
        "kind": "pip",
        "python": "<3.13,>=3.10",
        "channels": [],
        "conda": [],
        "pip": ["numpy>=1.2", "torch"],
        "constraints": [],
        "pip_options": {"extra_index_urls": ["https://download.pytorch.org/whl/cu124"]},
        "locked": "",
        "own_package": True,
    }
    assert [(entry.line, entry.column) for entry in spec.pip] == [(9, 4), (10, 4)]


def test_dependencies_that_setuptools_reads_from_a_file(tmp_path: Path) -> None:
    text = '[project]\nname = "m"\nversion = "1"\ndynamic = ["dependencies"]\n'
    write(tmp_path, "pyproject.toml", text)
    assert read_found(tmp_path)[0] is None
    write(tmp_path, "pyproject.toml", text + '[tool.setuptools.dynamic]\ndependencies = { file = ["base.txt"] }\n')
    write(tmp_path, "base.txt", "numpy\n")
    spec, _ = read_found(tmp_path)
    assert spec is not None
    assert spec.to_json()["pip"] == ["numpy"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[project]\ndependencies = "numpy"\n', "dependencies must be a list of strings"),
        ("[project]\ndependencies = [1]\n", "dependencies must be a list of strings"),
        ('[project]\ndependencies = ["-e ."]\n', "-e . is an option, not a requirement"),
        (
            '[project]\ndependencies = ["$(x)"]\n',
            "$(x) is not a requirement: expected package name at the start of dependency specifier",
        ),
        (
            '[project]\ndependencies = ["x"]\n[tool.uv.sources]\nx = { path = "../x" }\n',
            "[tool.uv.sources] of x is only used through a uv.lock",
        ),
    ],
)
def test_a_pyproject_that_cannot_be_followed(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "pyproject.toml", text)
    spec, findings = read_found(tmp_path)
    assert spec is None
    assert [finding.message for finding in findings if finding.severity == "error"] == [message]


@pytest.mark.parametrize("order", ["bare", "aml_config"])
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("pyproject.toml", "[project\n", "pyproject.toml:1:9: this file"),
        ("pyproject.toml", "# only tools\n[tool.ruff\n", "pyproject.toml:2:11: this file"),
        ("pyproject.toml", "[ project ]\ndependencies = [", "pyproject.toml:2: this file"),
        ("pyproject.toml", "[project]\na=" + "[" * 5000, "pyproject.toml: this file"),
        ("pyproject.toml", "[tool.x]\na = " + "9" * 5000, "pyproject.toml:2: this file"),
        ("uv.lock", "version = " + "9" * 5000, "uv.lock:1: this file"),
        ("train.py", f"# /// script\n# x = {'9' * 5000}\n# ///\n", "train.py:2: the header of this script"),
        ("uv.lock", "version = \n", "uv.lock:1:11: this file"),
        ("pylock.toml", "\n= 1\n", "pylock.toml:2:1: this file"),
        (
            "train.py",
            "#!/usr/bin/python\n# /// script\n# a = 1\n# b = \n# ///\n",
            "train.py:4:7: the header of this script",
        ),
    ],
)
def test_broken_toml_is_an_error_with_its_line_in_every_order(
    tmp_path: Path, order: str, name: str, text: str, place: str
) -> None:
    """A file behind it in the order must not be used instead."""
    if order == "aml_config":
        (tmp_path / "aml_config").mkdir()
    if name == "uv.lock":
        write(tmp_path, "pyproject.toml", PROJECT)
    if name != "train.py":
        write(tmp_path, "requirements.txt", "numpy\n")
    write(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        read_found(tmp_path)
    assert str(caught.value).startswith(f"{place} is not valid TOML")


@pytest.mark.parametrize("order", ["bare", "aml_config"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('project = "x"\n', "project must be a table"),
        ('[project]\nname = "x"\ndynamic = "dependencies"\n', "dynamic must be a list"),
        ("[project]\ndependencies = 0\n", "dependencies must be a list"),
    ],
)
def test_value_of_the_wrong_type_in_pyproject_is_not_passed_over(
    tmp_path: Path, order: str, text: str, message: str
) -> None:
    if order == "aml_config":
        (tmp_path / "aml_config").mkdir()
    write(tmp_path, "pyproject.toml", text)
    write(tmp_path, "requirements.txt", "numpy\n")
    try:
        messages = [finding.message for finding in read_found(tmp_path)[1]]
    except ConfigError as error:
        messages = [error.what]
    assert message in messages[0]


def test_a_uv_lock_is_taken_as_it_is(tmp_path: Path) -> None:
    lock = 'version = 1\nrequires-python = ">=3.11"\n# kept\n'
    write(tmp_path, "uv.lock", lock)
    assert found_in(tmp_path) is None
    (tmp_path / "aml_config").mkdir()
    with pytest.raises(ConfigError, match=r"belongs to a pyproject.toml, which does not exist"):
        read_found(tmp_path)
    (tmp_path / "aml_config").rmdir()
    write(tmp_path, "pyproject.toml", PROJECT + '[build-system]\nrequires = ["hatchling"]\n')
    spec, _ = read_found(tmp_path)
    assert spec is not None
    assert (spec.locked, spec.python, spec.own_package) == (lock, ">=3.11", True)
    write(tmp_path, "uv.lock", "version = 2\n")
    with pytest.raises(ConfigError, match=r"unsupported version"):
        read_found(tmp_path)


UV_LOCK = """version = 1

[[package]]
name = "numpy"
version = "1.26"
source = { registry = "https://index.test/simple" }

[[package]]
name = "mine"
version = "1"
source = { virtual = "." }
dependencies = [
    { name = "numpy" },
]

[package.metadata]
requires-dist = [{ name = "numpy", specifier = ">=1.20,<2" }]

[[package]]
name = "zipp"
version = "3.0"
"""


@pytest.mark.parametrize(
    ("declared", "changed"),
    [
        ('"numpy <2,>=1.20"', ""),
        ('"NumPy>=1.20,<2", "zipp"', "zipp"),
        ('"numpy>=2"', "numpy>=2"),
        ('"numpy @ https://index.test/numpy.whl"', ""),
        ('"numpy=="', ""),
    ],
)
def test_a_uv_lock_that_is_older_than_the_requirements_is_warned_of(
    tmp_path: Path, declared: str, changed: str
) -> None:
    write(tmp_path, "pyproject.toml", f'[project]\nname = "mine"\nversion = "1"\ndependencies = [{declared}]\n')
    write(tmp_path, "uv.lock", UV_LOCK)
    _, findings = read_found(tmp_path)
    assert [finding.message for finding in findings] == (
        [f"this file was made before pyproject.toml was changed: {changed}"] if changed else []
    )


def test_the_header_of_a_script(tmp_path: Path) -> None:
    toml = ['requires-python = ">=3.11"', "dependencies = [", '  "rich",', "]"]
    header = "\n".join(["#!/usr/bin/env python", "# /// script", *(f"# {line}" for line in toml), "#", "# ///", ""])
    write(tmp_path, "train.py", header + "print('# /// no')\n")
    spec, _ = read_found(tmp_path)
    assert spec is not None
    assert (spec.python, spec.to_json()["pip"]) == (">=3.11", ["rich"])
    write(tmp_path, "train.py", "# /// script\n# dependencies = []\n")
    with pytest.raises(ConfigError, match=r"without its end"):
        read_found(tmp_path)


@pytest.mark.parametrize("stated", ["3", "3.11", '[">=3.11"]'])
def test_required_python_that_is_no_string_is_an_error(tmp_path: Path, stated: str) -> None:
    write(tmp_path, "train.py", f'# /// script\n# requires-python = {stated}\n# dependencies = ["rich"]\n# ///\n')
    with pytest.raises(ConfigError, match=r"requires-python must be a string"):
        read_found(tmp_path)


def test_files_of_windows(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes("\ufeffnumpy\r\npandas==1\r\n".encode("utf-16-le"))
    spec, _ = read_found(tmp_path)
    assert spec is not None
    assert spec.to_json()["pip"] == ["numpy", "pandas==1"]
    (tmp_path / "requirements.txt").write_bytes(b"numpy # \xff\n")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text"):
        read_found(tmp_path)
