from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.amlconfig import compute, read_compute, read_runconfig, runconfig
from holdfast.amlconfig.form import raw
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.write import new_compute, new_runconfig, save, update
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.amlconfig.emit import Setting
    from holdfast.amlconfig.types import Raw

KEYS = (*compute.KEYS, *runconfig.KEYS)
CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("type: docker # kind\n", {"type": "local"}, "type: local # kind\n"),
        ("type: 'docker'\n", {"type": "local"}, "type: 'local'\n"),
        ('"Framework":  "PySpark"\n', {"Framework": "Python"}, '"Framework":  "Python"\n'),
        ("Framework:PySpark\n", {"Framework": "Python"}, "Framework: Python\n"),
        ("address:\ntype: remote\n", {"address": "a.b"}, "address: a.b\ntype: remote\n"),
        ("address:  # here\n", {"address": "a.b"}, "address: a.b  # here\n"),
        ("# top\na: 1\n\n# of c\nc: 3\n", {"b": True}, "# top\na: 1\nb: true\n\n# of c\nc: 3\n"),
        ("z: 1\na: 2\n", {"b": 3}, "z: 1\na: 2\nb: 3\n"),
        ("b: 1\n", {"a": "x"}, "a: x\nb: 1\n"),
        ("", {"a": "x"}, "a: x\n"),
        ("# only this", {"a": "x"}, "# only this\na: x"),
        ("a: 1", {"b": 2}, "a: 1\nb: 2"),
        ("a: 1\r\nb: 2\r\n", {"c": 3, "a": 4}, "a: 4\r\nb: 2\r\nc: 3\r\n"),
        ("a: 1\nb: 2", {"b": None}, "a: 1"),
        ("a: 1\nb:\n- x\n- y\n# c\nc: 2\n", {"b": None}, "a: 1\n# c\nc: 2\n"),
        ("a: 1\na: 2\nb: 3\n", {"a": None}, "b: 3\n"),
        ("a: 1\na: 2\n", {"a": 3}, "a: 1\na: 3\n"),
        ("a:\n  # old\n  - x\nb: 1\n", {"a": ["v", "w"]}, "a:\n  # old\n  - v\n  - w\nb: 1\n"),
        ("a:\n- x # c\nb: 1\n", {"a": "v"}, "a: v\nb: 1\n"),
        ("a: [x, y] # c\n", {"a": ["z"]}, 'a: ["z"] # c\n'),
        ("a: null # c\nb: 1\n", {"a": {"K": "v w"}}, "a:  # c\n  K: v w\nb: 1\n"),
        ("a: null\n", {"a": ["1", "--x"]}, "a:\n- '1'\n- '--x'\n"),
        ("a: >-\n  long\n  text\nb: 1\n", {"a": "short"}, "a: short\nb: 1\n"),
        ("  a: 1\n  b: 2\n", {"c": 3}, "  a: 1\n  b: 2\n  c: 3\n"),
        ("\ta : 1\n", {"a": 2}, "\ta : 2\n"),
        ("...\na: 1\n", {"a": 2}, "...\na: 2\n"),
        ("address: h\n", {"address": "203.0.113.7"}, "address: 203.0.113.7\n"),
        ("v: h\n", {"v": "3.10"}, "v: '3.10'\n"),
        ('{"a": 1}', {"a": "x", "b": True}, '{"a": "x", "b": true}'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', {"c": "x"}, '{\n  "a": 1,\n  "b": 2,\n  "c": "x"\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', {"b": None}, '{\n  "a": 1\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', {"a": None}, '{\n  "b": 2\n}\n'),
        ('{"a": 1}\n', {"a": None}, "{}\n"),
        ("{}\n", {"a": ["x"]}, '{"a": ["x"]}\n'),
    ],
)
def test_only_what_changes_is_touched(tmp_path: Path, before: str, changes: dict[str, str], after: str) -> None:
    path = tmp_path / "x.compute"
    path.write_bytes(before.encode())
    update(path, changes)
    assert path.read_bytes().decode() == after


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_a_byte_order_mark_stays(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "x.compute"
    path.write_bytes(mark + b"type: docker\r\n")
    update(path, {"type": "local"})
    assert path.read_bytes() == mark + b"type: local\r\n"


def test_utf_16_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.compute"
    path.write_bytes(b"\xff\xfe" + "# é\r\ntype: docker\r\n".encode("utf-16-le"))
    update(path, {"type": "local"})
    assert path.read_bytes() == b"\xff\xfe" + "# é\r\ntype: local\r\n".encode("utf-16-le")


def test_a_file_that_cannot_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "x.compute"
    path.write_text("type: [local\n")
    with pytest.raises(ConfigError, match="never closed"):
        update(path, {"type": "local"})
    assert path.read_text() == "type: [local\n"


def test_a_change_that_would_touch_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.compute"
    path.write_text("? a\n: b\nc: d\n")
    with pytest.raises(ConfigError, match="a cannot be changed"):
        update(path, {"c": "e", "a": ["x"]})
    assert path.read_text() == "? a\n: b\nc: d\n"


def test_links_and_modes_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.compute", tmp_path / "link.compute"
    real.write_text("type: docker\n")
    real.chmod(0o640)
    link.symlink_to(real)
    update(link, {"type": "local"})
    assert link.is_symlink()
    assert real.read_text() == "type: local\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.compute", "real.compute"]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "x.compute"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"x\.compute: this file cannot be written"):
        save(str(folder), b"data")
    assert os.listdir(tmp_path) == ["x.compute"]


def test_new_files_have_the_shape_of_the_original(tmp_path: Path) -> None:
    text = new_compute({"type": "remote", "address": "gpu1.example.org", "userManagedEnvironment": True, "port": 22})
    assert text == "address: gpu1.example.org\nport: 22\ntype: remote\nuserManagedEnvironment: true\n"
    (tmp_path / "gpu1.compute").write_text(text)
    assert read_compute(tmp_path / "gpu1.compute")[1] == []
    text = new_runconfig("gpu1", {"EnvironmentVariables": {"A": "1", "B": "x: y"}})
    assert text == (
        "ArgumentVector:\n- $file\nCondaDependenciesFile: aml_config/conda_dependencies.yml\n"
        "EnvironmentVariables:\n  A: '1'\n  B: 'x: y'\nFramework: Python\nPrepareEnvironment: false\n"
        "SparkDependenciesFile: aml_config/spark_dependencies.yml\nTarget: gpu1\nTrackedRun: true\nUseSampling: true\n"
    )
    (tmp_path / "gpu1.runconfig").write_text(text)
    assert read_runconfig(tmp_path / "gpu1.runconfig")[1] == []


FILES = [
    path
    for path in sorted(CORPUS.rglob("*"))
    if path.suffix in (".compute", ".runconfig", ".yml") and Source(str(path), "", KEYS).root is not None
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SETTINGS = (
    st.none() | TEXT | st.booleans() | st.integers(0, 99) | st.lists(TEXT, max_size=3) | st.dictionaries(TEXT, TEXT)
)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_any_change_to_any_file_reads_back_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, original: Path, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / original.name
    path.write_bytes(original.read_bytes())
    before = content(path)
    name = data.draw(st.sampled_from([*before, "brandNew"]))
    value = data.draw(SETTINGS)
    try:
        update(path, {name: value})
    except ConfigError:
        assert path.read_bytes() == original.read_bytes()
        return
    after = content(path)
    assert after.pop(name, None) == (str(value).lower() if isinstance(value, int) else value)
    before.pop(name, None)
    assert after == before


@pytest.mark.parametrize("value", ["plain", True, ["a", "b"], [], {"K": "v w"}, {}, None], ids=repr)
def test_ordinary_changes_are_never_refused(tmp_path: Path, value: Setting | None) -> None:
    for original in FILES:
        if original.parts[-3] == "tabs" and value:
            continue  # there, what is below an open key depends on what that key holds
        path = tmp_path / original.name
        names = [*content(original), "brandNew"]
        for name in {names[0], names[len(names) // 2], names[-1]}:
            path.write_bytes(original.read_bytes())
            update(path, {name: value})
            assert content(path).get(name) == ("true" if value is True else value)


def content(path: Path) -> dict[str, Raw]:
    root = Source(str(path), "", KEYS).root
    assert root is not None
    return {key.text: raw(value) for key, value in root.entries}


def test_first_key_of_an_empty_json_object_below_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "box.runconfig"
    path.write_text("# a comment\n{}\n")
    update(path, {"Target": "local"})
    assert path.read_text() == '# a comment\n{"Target": "local"}\n'
