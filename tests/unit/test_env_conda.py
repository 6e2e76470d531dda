from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.amlconfig.types import Finding
from holdfast.environments import wheels
from holdfast.environments.read import read
from holdfast.environments.sources import Declared
from holdfast.environments.spec import Facts, Interpreter, Spec, python_findings, python_of, settled, spec_key

FILE = "conda_dependencies.yml"
FACTS = Facts("linux-64", {"__glibc": "2.36", "__linux": "6.1", "__unix": "0", "__cuda": None})
PYTHON = Interpreter("3.11.7", "abc")


def spec_of(root: Path, text: str) -> tuple[Spec | None, list[Finding]]:
    (root / FILE).write_text(text, encoding="utf-8")
    return read(str(root), Declared(FILE, "conda", ""))


def good(root: Path, text: str) -> Spec:
    spec, findings = spec_of(root, text)
    assert spec is not None, findings
    return spec


def test_every_form_of_the_original(tmp_path: Path) -> None:
    wheel = b"not really a wheel"
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "b-1.0-py3-none-any.whl").write_bytes(wheel)
    text = r"""
name: project_environment
channels: [conda-forge, esri, nodefaults, conda-forge]
dependencies:
  - python=3.5.2
  - ipykernel=4.6.1
  - NumPy==1.13   # meant: one =
  - io
  - pip
  - pip:
    - --index-url https://packages.example.org/simple
    - --extra-index-url=https://more.example.org/simple
    - -f https://wheels.example.org/
    - pickle
    - Azure_Storage==0.36
    - https://example.org/wheels/a-2.0-py3-none-any.whl?sv=1&sig=x%3D
    - wheels\b-1.0-py3-none-any.whl
"""
    spec, findings = spec_of(tmp_path, text)
    assert [(finding.line, finding.severity) for finding in findings] == [
        (8, "warning"),
        (7, "warning"),
        (14, "warning"),
    ]
    assert findings[1].hint == "write - numpy=1.13"
    assert spec is not None
    assert spec.to_json() == {
        "source": FILE,
        "kind": "conda",
        "python": "==3.5.2.*",
        "channels": ["conda-forge", "esri"],
        "conda": ["ipykernel=4.6.1", "numpy=1.13", "pip", "python=3.5.2"],
        "pip": [
            f"./wheels/b-1.0-py3-none-any.whl --hash=sha256:{hashlib.sha256(wheel).hexdigest()}",
            "a @ https://example.org/wheels/a-2.0-py3-none-any.whl?sv=1&sig=x%3D",
            "azure-storage==0.36",
        ],
        "constraints": [],
        "pip_options": {
            "index_url": "https://packages.example.org/simple",
            "extra_index_urls": ["https://more.example.org/simple"],
            "find_links": ["https://wheels.example.org/"],
        },
        "locked": "",
        "own_package": False,
    }


def test_an_empty_file_asks_for_nothing(tmp_path: Path) -> None:
    spec = good(tmp_path, "# nothing yet\n")
    assert (spec.kind, spec.python, spec.conda, spec.pip) == ("pip", None, (), ())


def test_a_pip_list_may_take_in_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("pandas\n")
    spec = good(tmp_path, "dependencies:\n- pip:\n  - -r more.txt\n")
    assert [(entry.text, entry.file, entry.line) for entry in spec.pip] == [("pandas", "more.txt", 1)]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (r"C:\wheels\b-1.0-cp35-cp35m-win_amd64.whl", "is outside the project and not available on other machines"),
        ("/data/b-1.0-py3-none-any.whl", "is outside the project and not available on other machines"),
        ("../b-1.0-py3-none-any.whl", "is outside the project and not available on other machines"),
        ("b-1.0-py3-none-any.whl", "b-1.0-py3-none-any.whl does not exist"),
        ("--config-settings=x", "the option --config-settings is not supported"),
        ("--index-url ext::sh", "--index-url takes an http, https or file address"),
        ("$(touch x)", "$(touch x) is not a requirement"),
    ],
)
def test_pip_items_that_cannot_be_followed(tmp_path: Path, item: str, message: str) -> None:
    spec, findings = spec_of(tmp_path, f"dependencies:\n- pip:\n  - '{item}'\n")
    assert spec is None
    assert message in findings[0].message
    assert (findings[0].file, findings[0].line, findings[0].column) == (FILE, 3, 5)
    assert findings[0].hint


@pytest.mark.parametrize("item", ["$(touch x)", "a; rm -rf x", "--strange"])
def test_conda_items_that_are_no_packages(tmp_path: Path, item: str) -> None:
    spec, findings = spec_of(tmp_path, f"dependencies:\n- '{item}'\n")
    assert spec is None
    assert "is not a conda package" in findings[0].message


@pytest.mark.parametrize("channel", ["$(touch x)", "ext::sh", "-x", "a b", "/etc"])
def test_what_is_no_channel(tmp_path: Path, channel: str) -> None:
    spec, findings = spec_of(tmp_path, f"channels:\n- '{channel}'\n")
    assert spec is None
    assert (findings[0].line, findings[0].message) == (2, f"{channel} is not a channel")


def test_channels_by_address(tmp_path: Path) -> None:
    channels = ["https://host/t/ab-0123456789/mine", "file:///opt/channel", "conda-forge/label/gcc7"]
    spec = good(tmp_path, "channels:\n" + "".join(f"- {channel}\n" for channel in channels))
    assert list(spec.channels) == channels


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "b-1.0-py3-none-any.whl").write_bytes(b"secret")
    (project / "b-1.0-py3-none-any.whl").symlink_to(tmp_path / "b-1.0-py3-none-any.whl")
    spec, findings = spec_of(project, "dependencies:\n- pip:\n  - ./b-1.0-py3-none-any.whl\n")
    assert spec is None
    assert "outside the project" in findings[0].message


def test_secrets_are_not_repeated(tmp_path: Path) -> None:
    _, findings = spec_of(tmp_path, "dependencies:\n- pip:\n  - svn+https://ada:hunter2@host/x?sig=canary\n")
    assert findings
    assert not any("hunter2" in str(finding) or "canary" in str(finding) for finding in findings)


def test_wheels_for_another_machine_are_refused_before_any_download(tmp_path: Path) -> None:
    url = "https://host/cntk-2.1-cp35-cp35m-win_amd64.whl?sig=canary"
    spec = good(tmp_path, f"dependencies:\n- python=3.5.2\n- pip:\n  - {url}\n  - numpy\n")
    (finding,) = wheels.findings(spec, FACTS)
    assert (finding.severity, finding.line) == ("error", 4)
    assert finding.message == "the wheel of cntk 2.1 is for Windows (win_amd64); the target is linux-64"
    assert "cp35-cp35m-linux_x86_64" in finding.hint
    assert wheels.findings(spec, Facts("win-64")) == []


def test_nothing_but_python_needs_no_conda_where_that_python_is(tmp_path: Path) -> None:
    spec = good(tmp_path, "dependencies:\n- python=3.11\n- pip:\n  - numpy\n")
    assert spec.kind == "pip"
    assert spec.to_json()["conda"] == []
    assert settled(spec, PYTHON) == spec
    for other in (None, Interpreter("3.12.1", "abc")):
        assert settled(spec, other).kind == "conda"
        assert settled(spec, other).to_json()["conda"] == ["python=3.11"]
    assert python_of(spec, PYTHON) == (3, 11)


def test_an_interpreter_that_the_project_rules_out() -> None:
    spec = Spec("pyproject.toml", "pip", ">=3.12")
    (finding,) = python_findings(spec, PYTHON)
    assert "requires Python >=3.12; the interpreter of this target is Python 3.11.7" in finding.message
    assert python_findings(spec, Interpreter("3.12.1", "x")) == []


CONDA = ["python=3.6", "numpy=1.13", "scipy", "conda-forge::pandas>=0.20,<1"]
PIP = ["keras==2.1.5", "azure_storage>=1,<2", "https://host/a-2.0-py3-none-any.whl?sig=1", "x[b,a]==1"]


@st.composite
def respelled(draw: st.DrawFn) -> str:
    """The same environment as another author would have written it."""

    def listed(items: list[str], indent: str) -> str:
        lines = []
        for item in draw(st.permutations(items + draw(st.lists(st.sampled_from(items), max_size=2)))):
            text = draw(st.sampled_from([item, item.upper() if "host" not in item and "::" not in item else item]))
            text = text.replace("?sig=1", draw(st.sampled_from(["?sig=1", "?sig=2", ""])))
            text = text.replace(
                "azure_storage>=1,<2", draw(st.sampled_from(["azure.storage<2, >=1", "Azure-Storage>=1,<2"]))
            )
            text = text.replace("[b,a]", draw(st.sampled_from(["[a, b]", "[b,a]"])))
            comment = draw(st.sampled_from(["", "  # why", f"\n{indent}# above"]))
            lines.append(f"{indent}- '{text}'{comment}\n")
        return "".join(lines)

    name = draw(st.sampled_from(["", "name: other\n", "# comment\n"]))
    return f"{name}channels: [conda-forge, esri]\ndependencies:\n{listed(CONDA, '  ')}  - pip:\n{listed(PIP, '    ')}"


@settings(max_examples=60, deadline=None)
@given(respelled())
def test_order_comments_and_case_do_not_change_the_key(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("spelling")
    plain = "".join(f"- {item}\n" for item in CONDA) + "- pip:\n" + "".join(f"  - {item}\n" for item in PIP)
    expected = spec_key(good(root, f"channels: [conda-forge, esri]\ndependencies:\n{plain}"), FACTS, None)
    assert spec_key(good(root, text), FACTS, None) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("python=3.6", "python=3.7"),
        ("numpy=1.13", "numpy=1.14"),
        ("keras==2.1.5", "keras==2.1.6"),
        ("a-2.0-py3", "a-2.1-py3"),
        ("[b,a]", "[b]"),
        ("channels: [conda-forge, esri]", "channels: [esri, conda-forge]"),
        ("- pip:\n", "- pip:\n  - --pre\n"),
        ("- scipy\n", ""),
    ],
)
def test_a_change_that_matters_changes_the_key(tmp_path: Path, old: str, new: str) -> None:
    items = "".join(f"- {item}\n" for item in CONDA) + "- pip:\n" + "".join(f"  - {item}\n" for item in PIP)
    text = f"channels: [conda-forge, esri]\ndependencies:\n{items}"
    before = spec_key(good(tmp_path, text), FACTS, None)
    assert text.replace(old, new) != text
    assert spec_key(good(tmp_path, text.replace(old, new)), FACTS, None) != before


def test_what_of_a_target_matters_to_the_key() -> None:
    conda, pip = Spec("a.yml", "conda"), Spec("r.txt", "pip")
    other_kernel = FACTS._replace(virtual={**FACTS.virtual, "__linux": "6.6"})
    other_libc = FACTS._replace(virtual={**FACTS.virtual, "__glibc": "2.28"})
    other_cuda = FACTS._replace(virtual={**FACTS.virtual, "__cuda": "12.4"})
    for spec, facts, interpreter, same in [
        (conda, other_kernel, None, True),
        (conda, other_libc, None, False),
        (conda, other_cuda, None, False),
        (conda, FACTS, PYTHON, True),
        (pip, other_cuda, None, True),
        (pip, other_libc, None, False),
        (pip, FACTS, PYTHON, False),
        (pip, FACTS._replace(platform="osx-arm64"), None, False),
        (pip._replace(source="other.txt"), FACTS, None, True),
        (pip._replace(locked="x"), FACTS, None, False),
        (pip._replace(own_package=True), FACTS, None, False),
    ]:
        reference = conda if spec.kind == "conda" else pip
        assert (spec_key(spec, facts, interpreter) == spec_key(reference, FACTS, None)) is same


def test_index_of_a_host_that_is_gone_is_left_out_with_a_warning(tmp_path: Path) -> None:
    dead = "https://azuremldownloads.azureedge.net/python-repository/preview"
    living = "https://packages.example.org/simple"
    options = f"  - --index-url {dead}\n  - --extra-index-url {living}\n  - --find-links https://cntk.ai/PythonWheel/\n"
    spec, findings = spec_of(tmp_path, f"dependencies:\n- pip:\n{options}  - six\n")
    assert spec is not None, findings
    assert spec.pip_options.index_url == ""
    assert spec.pip_options.extra_index_urls == (living,)
    assert [finding.line for finding in findings] == [3, 5]
    assert all(finding.severity == "warning" for finding in findings)
    assert findings[0].message == "azuremldownloads no longer exists; this index is left out"
