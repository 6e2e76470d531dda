"""The conda files of the guide in its five languages, and other packages and URLs that no longer exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast import withdrawn
from holdfast.amlconfig.types import Finding
from holdfast.environments.edits import applied
from holdfast.environments.read import read
from holdfast.environments.revival import retired
from holdfast.environments.sources import Declared
from holdfast.environments.spec import Interpreter, Spec
from holdfast.errors import ConfigError

GUIDE = Path(__file__).parents[1] / "corpus" / "environments" / "guide"
FILES = sorted(path.relative_to(GUIDE).as_posix() for path in GUIDE.rglob("*.yml"))
FIXED = {
    "tensorflow": ["python=3.6", "tensorflow-gpu==2.6.2"],
    "cntk": ["python=3.6", "cntk-gpu==2.7"],
    "cntk-1bit": ["python=3.6", "cntk-gpu==2.7"],
}


def spec_of(root: Path, text: str, file: str = "env.yml") -> Spec:
    (root / file).write_bytes(text.encode())
    spec, findings = read(str(root), Declared(file, "conda" if file.endswith(".yml") else "requirements", ""))
    assert spec is not None, findings
    return spec


def findings(spec: Spec, interpreter: Interpreter | None = None) -> list[Finding]:
    return [edit.finding for edit in retired.edits(spec, interpreter)]


def fixed(text: str, spec: Spec) -> str:
    return applied(text, (edit for edit in retired.edits(spec) if edit.entry.file == spec.source))


def test_the_guide_is_all_here() -> None:
    assert len(FILES) == 14
    assert {Path(name).parent.name for name in FILES} == {"de", "fr", "ja", "pt-BR", "zh-TW"}


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_guide_gets_its_message_and_its_fix(tmp_path: Path, name: str) -> None:
    text = (GUIDE / name).read_text(encoding="utf-8")
    spec = spec_of(tmp_path, text)
    found = findings(spec)
    assert len(found) == 2
    assert [finding.line > 0 and bool(finding.hint) for finding in found] == [True, True]

    mended = fixed(text, spec)
    again = spec_of(tmp_path, mended)
    assert findings(again) == []
    expected = ["python=3.6", "cntk-gpu==2.5.1"] if "cntk_gpu-2.5.1" in text else FIXED[Path(name).stem]
    assert [entry.text for entry in (*again.conda, *again.pip)] == expected
    assert re.findall(r"#.*", mended) == re.findall(r"#.*", text)
    assert again.kind == "pip"


def test_messages_name_the_place_and_the_line_to_write(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, (GUIDE / "de" / "cntk-1bit.yml").read_text())
    python, wheel = findings(spec)
    assert (python.line, python.hint) == (3, "write - python=3.6")
    assert python.severity == "warning"
    assert python.message.startswith("Python 3.5.2 is too old")
    assert (wheel.line, wheel.column, wheel.hint) == (6, 7, "write - cntk-gpu==2.7")
    assert wheel.message.endswith("cntk-gpu 2.5 to 2.7 are, with 1-bit SGD in the ordinary GPU build")


def test_tensorflow_of_the_guide_in_full(tmp_path: Path) -> None:
    text = (GUIDE / "fr" / "tensorflow.yml").read_text()
    assert fixed(text, spec_of(tmp_path, text)) == (
        "name: project_environment\n"
        "dependencies:\n"
        "  - python=3.6\n"
        "  # latest TensorFlow library with GPU support\n"
        "  - pip:\n"
        "    - tensorflow-gpu==2.6.2\n"
    )


@pytest.mark.parametrize(
    ("python", "line", "new"),
    [
        ("3.11", "tensorflow-gpu", "tensorflow[and-cuda]"),
        ("3.8", "tensorflow-gpu", "tensorflow-gpu==2.11.0"),
        ("3.7", "tensorflow-gpu>=1.4", "tensorflow-gpu==2.11.0"),
        ("3.6", "tensorflow-gpu==2.12.0", "tensorflow-gpu==2.6.2"),
        ("3.6", "tensorflow-gpu==1.14.0", ""),
        ("3.11", "sklearn==0.0", "scikit-learn"),
        ("3.11", "PIL", "pillow"),
        ("3.11", "pytorch==1.0", "torch"),
        ("3.11", "scikit-learn", ""),
        ("3.6", "https://cntk.ai/PythonWheel/CPU-Only/cntk-2.6-cp36-cp36m-linux_x86_64.whl", "cntk==2.6"),
        ("3.6", "https://cntk.ai/PythonWheel/GPU/cntk_gpu-2.5.1-cp36-cp36m-linux_x86_64.whl", "cntk-gpu==2.5.1"),
        ("3.6", "https://example.org/cntk-2.1-cp36-cp36m-linux_x86_64.whl", ""),
    ],
)
def test_pip_lines(tmp_path: Path, python: str, line: str, new: str) -> None:
    spec = spec_of(tmp_path, f"dependencies:\n- python={python}\n- pip:\n  - {line}\n")
    assert [finding.hint for finding in findings(spec)] == ([f"write - {new}"] if new else [])


def test_requirements_files_are_mended_too(tmp_path: Path) -> None:
    text = "# mine\r\nnumpy  # kept\r\nsklearn==0.0  # this one\r\n"
    spec = spec_of(tmp_path, text, "requirements.txt")
    assert findings(spec)[0].hint == "write scikit-learn"
    assert fixed(text, spec) == "# mine\r\nnumpy  # kept\r\nscikit-learn  # this one\r\n"


def test_the_interpreter_decides_where_the_file_does_not(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "tensorflow-gpu\n", "requirements.txt")
    assert findings(spec)[0].hint == "write tensorflow[and-cuda]"
    assert findings(spec, Interpreter("3.8.18", "x"))[0].hint == "write tensorflow-gpu==2.11.0"


def test_what_the_original_brought_itself_is_deleted(tmp_path: Path) -> None:
    url = "https://azuremldownloads.azureedge.net/wheels/azureml.assets-1.0-py3-none-any.whl?sv=1&sig=canary"
    text = f"dependencies:\n- python=3.6\n- pip:\n  - {url}\n"
    spec = spec_of(tmp_path, text)
    (finding,) = findings(spec)
    assert finding.hint == "delete this line"
    assert "canary" not in str(finding)
    assert fixed(text, spec) == "dependencies:\n- python=3.6\n- pip:\n"
    assert spec_of(tmp_path, fixed(text, spec)).pip == ()


def test_a_package_joins_the_pip_list_that_is_there(tmp_path: Path) -> None:
    text = "dependencies:\n- python=3.6\n- tensorflow-gpu=1.8\n- sklearn\n- pip:\n    # mine\n    - keras\n\n# end"
    spec = spec_of(tmp_path, text)
    assert fixed(text, spec) == (
        "dependencies:\n- python=3.6\n- scikit-learn\n- pip:\n"
        "    # mine\n    - keras\n    - tensorflow-gpu==1.8.*\n\n# end"
    )


def test_a_bracketed_list_is_left_to_its_author(tmp_path: Path) -> None:
    text = "dependencies: [python=3.6, tensorflow-gpu]\n"
    with pytest.raises(
        ConfigError, match=r"env.yml:1: this line cannot be changed without affecting other lines"
    ) as caught:
        fixed(text, spec_of(tmp_path, text))
    assert "below - pip: write - tensorflow-gpu==2.6.2" in caught.value.hint
    text = "dependencies: [python=3.5.2, 'sklearn']\n"
    assert fixed(text, spec_of(tmp_path, text)) == "dependencies: [python=3.6, 'scikit-learn']\n"


def test_python_2_is_not_quietly_made_python_3(tmp_path: Path) -> None:
    text = "dependencies:\n- python=2.7\n"
    assert fixed(text, spec_of(tmp_path, text)) == text


def test_a_channel_that_keeps_old_packages_is_believed(tmp_path: Path) -> None:
    text = "channels: [defaults]\ndependencies:\n- python=3.6\n- tensorflow-gpu=1.14\n"
    assert findings(spec_of(tmp_path, text)) == []


def test_cntk_needs_an_old_python(tmp_path: Path) -> None:
    text = "dependencies:\n- python=3.11  # new\n- pip:\n  - cntk-gpu==2.7\n"
    spec = spec_of(tmp_path, text)
    assert fixed(text, spec) == text.replace("3.11", "3.6")
    assert findings(spec_of(tmp_path, text.replace("cntk-gpu==2.7", "cntkx"))) == []


def test_no_replacement_is_itself_retired(tmp_path: Path) -> None:
    lines = [entry.new for entry in withdrawn.PIP_NAMES.values()]
    lines += [*withdrawn.TENSORFLOW_GPU.values(), withdrawn.TENSORFLOW_TODAY]
    text = "\n".join(lines)
    assert findings(spec_of(tmp_path, text, "requirements.txt")) == []
    conda = "dependencies:\n- python=3.6\n" + "".join(f"- {entry.new}\n" for entry in withdrawn.CONDA_NAMES.values())
    assert findings(spec_of(tmp_path, conda)) == []
    assert all(
        re.fullmatch(r"20\d\d-[01]\d", entry.since)
        for entry in (*withdrawn.PIP_NAMES.values(), *withdrawn.CONDA_NAMES.values())
    )
