"""The MNIST templates without their frameworks: data from a mirror, what is said offline, how their files look.

tests/soak/test_mnist_templates.py trains with them.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from lab.server import serve

if TYPE_CHECKING:
    from conftest import Desk

FOLDER = Path(holdfast.__file__).parent / "templates"
TEMPLATES = ("mnist-cntk", "mnist-pytorch", "mnist-tensorflow")
SHARED = ("get_data.py", "mnist.py")
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SHOW = "import os\nprint(sorted(os.listdir(os.environ['HOLDFAST_DATA_MNIST'])), sorted(os.listdir('data/mnist')))\n"


def create(desk: Desk, template: str) -> Path:
    result = desk.holdfast("project", "create", "--name", "made", "--path", ".", "--template", template)
    assert result.code == 0, result
    return desk.project / "made"


def fetch(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "get_data.py", "--only-mirror", *words]
    return subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("template", TEMPLATES)
def test_new_project_checks_well_and_names_its_script(desk: Desk, template: str) -> None:
    made = desk.holdfast("project", "create", "--name", "made", "--path", ".", "--template", template)
    script = "cntk_mnist.py" if template == "mnist-cntk" else "train.py"
    assert f"holdfast submit -c local {script}\n" in made.err
    checked = desk.holdfast("check", cwd=desk.project / "made")
    assert checked.code == 0, checked
    without_data = desk.holdfast("submit", "-c", "local", "--env", "none", script, cwd=desk.project / "made")
    assert (without_data.code, "no such file or folder: data/mnist" in without_data.err) == (65, True), without_data


def test_every_template_has_a_readme_a_picture_and_three_run_configurations() -> None:
    for folder in FOLDER.iterdir():
        if folder.name in ("blank", "spark-iris") or not folder.is_dir():
            continue
        readme = (folder / "README.md").read_text()
        (picture,) = re.findall(r"!\[.+\]\((.+)\)", readme)
        assert (folder / picture).stat().st_size > 500
        assert {"local", "docker", "gpubox"} <= {path.stem for path in (folder / "aml_config").glob("*.runconfig")}


def test_shared_files_are_the_same_in_all_mnist_templates() -> None:
    for name in SHARED:
        assert len({(FOLDER / template / name).read_bytes() for template in TEMPLATES}) == 1


def test_data_comes_from_a_mirror_by_its_content_and_into_the_run(desk: Desk, tmp_path: Path) -> None:
    """With hashes of small files in place of those of MNIST, which no test can have without a network."""
    project = create(desk, "mnist-pytorch")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    source = (project / "get_data.py").read_text()
    for number, name in enumerate(FILES):
        content = name.encode() * 50
        digest = hashlib.sha256(content).hexdigest()
        source = re.sub(rf'"{name}": "\w+"', f'"{name}": "{digest}"', source)
        packed = number % 2 == 0
        (mirror / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    (project / "get_data.py").write_text(source)
    offline = fetch(project, "--mirror", "http://127.0.0.1:9/mnist")
    assert offline.returncode == 1
    assert "no mirror has train-images-idx3-ubyte:" in offline.stderr
    assert "Without a network, copy the four files of MNIST into" in offline.stderr
    with serve(mirror) as server:
        assert fetch(project, "--mirror", server.url).stdout.count("fetched") == 4
        (project / "data" / "mnist" / FILES[1]).write_bytes(b"damaged")
        (mirror / FILES[1]).write_bytes(b"other")
        refused = fetch(project, "--mirror", server.url)
        assert (refused.returncode, "another content than that of MNIST" in refused.stderr) == (1, True)
        (mirror / FILES[1]).write_bytes(FILES[1].encode() * 50)
        assert fetch(project, "--mirror", server.url).stdout.count("is there") == 3
    (project / "show.py").write_text(SHOW)
    result = desk.holdfast("submit", "-c", "local", "--env", "none", "show.py", cwd=project)
    assert f"{sorted(FILES)} {sorted(FILES)}\n" in result.text, result
    assert [row["name"] for row in desk.holdfast("history", "last", cwd=project).json["data"]] == ["mnist"]
