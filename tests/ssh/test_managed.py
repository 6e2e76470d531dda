"""What a project declares is built on the machine where it runs, from a lock that was solved here for it."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import eventually
from lab.source import write_program
from managed import channel, everything, index, lend_tools
from ssh.shelved import ada_fixture, box_fixture, laptop_fixture, shared_fixture  # noqa: F401

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User


@pytest.fixture
def managed(laptop: Laptop, box: Host, ada: User) -> Laptop:
    lend_tools(laptop)
    result = laptop.attach(ada, box)
    assert result.code == 0, result
    ada.run("ln", "-s", str((laptop.home / "builder").resolve()), "/home/ada/.holdfast/builder")
    return laptop


def test_requirements_are_built_there_once(managed: Laptop, ada: User) -> None:
    files = index().path / "files"
    (managed.project / "requirements.txt").write_text(f"--no-index\n--find-links {files.as_uri()}\ntinypip==1.1\n")
    managed.script("import sys, tinypip; print(tinypip.WHOLE, sys.prefix)")
    result = managed.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, (result, managed.holdfast("history", "info", "-a", "control_log").out)
    assert b"1.1 /home/ada/.holdfast/envs/" in result.out
    assert len(list(ada.path(".holdfast/envs").glob("*"))) == 1
    assert managed.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert len(list(ada.path(".holdfast/envs").glob("*"))) == 1
    assert not (managed.home / "envs").exists()


SERVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from lab.server import Server

class Open(Server):
    def server_bind(self):
        self.server_address = ("0.0.0.0", 8123)
        super().server_bind()

with Open(Path(sys.argv[2]), None) as server:
    server.password = "ada:" + sys.stdin.readline().strip()
    print("ready", flush=True)
    server.serve_forever()
"""


def test_configured_index_is_used_there_and_its_password_not_kept(managed: Laptop, box: Host) -> None:
    """The client's PIP_INDEX_URL reaches the machine that installs, and nothing on either machine keeps it."""
    canary = "c4n4ry5ecret"
    (managed.project / "requirements.txt").write_text("tinypip==1.0\n")
    managed.script("import sys, tinypip; print(tinypip.WHOLE, sys.prefix)")
    tests = str(Path(__file__).parents[1])
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with managed.client.popen(sys.executable, "-c", SERVER, tests, str(index().path), **pipes) as server:
        try:
            assert server.stdin
            assert server.stdout
            server.stdin.write(f"{canary}\n".encode())
            server.stdin.flush()
            assert server.stdout.readline() == b"ready\n"
            address = f"http://ada:{canary}@{managed.client.address}:8123/simple/"
            result = managed.holdfast("submit", "-c", "lab1", "train.py", env={"PIP_INDEX_URL": address})
        finally:
            server.kill()
    assert b"1.0 /home/ada/.holdfast/envs/" in result.out, result
    assert box.holding(canary.encode()) == []
    assert canary not in everything(managed)
    assert canary not in result.text + result.err


def test_a_conda_file_is_built_there(managed: Laptop, ada: User) -> None:
    text = f"channels: [{channel().file_url}]\ndependencies: [python, tinysay]\n"
    (managed.project / "aml_config" / "conda_dependencies.yml").write_text(text)
    managed.script("import sys; print(sys.prefix)")
    prepared = managed.holdfast("experiment", "prepare", "-c", "lab1")
    assert prepared.code == 0, prepared
    assert b"/home/ada/.holdfast/envs/" in managed.holdfast("submit", "-c", "lab1", "train.py").out


BACKEND = '''
import os, time, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    """As slow as whoever waits for it wants it to be."""
    if os.path.isdir("/home/ada"):
        open("/home/ada/building", "w").close()
        while not os.path.exists("/home/ada/go-on"):
            time.sleep(0.05)
    name = "slowbuild-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("slowbuild.py", "BUILT = True")
        about = "slowbuild-1.0.dist-info/"
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.2\\nName: slowbuild\\nVersion: 1.0\\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(about + "RECORD", "")
    return name
'''


def test_a_cut_while_an_environment_is_built(
    managed: Laptop, ada: User, box: Host, shared: Lab, tmp_path: Path
) -> None:
    """The build belongs to the run, and the run to the machine: a broken link does not affect it."""
    archive = _source_archive(tmp_path / "slowbuild-1.0.tar.gz")
    (managed.project / archive.name).write_bytes(archive.read_bytes())
    (managed.project / "requirements.txt").write_text(f"--no-index\n./{archive.name}\n")
    managed.script("import slowbuild; print('built', slowbuild.BUILT)")
    process = managed.start("submit", "-c", "lab1", "train.py")
    eventually(lambda: ada.path("building").exists(), 120)
    shared.cut(box)
    ada.path("go-on").touch()
    eventually(lambda: list(ada.path(".holdfast/runs").glob("*/a1/outputs.jsonl")) != [], 120)  # it has ended
    shared.heal(box)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert b"built True\n" in out


@pytest.mark.parametrize("kind", ["pip", "conda"])
def test_programs_of_packages_run_on_the_target_only(managed: Laptop, ada: User, kind: str) -> None:
    """At every command: they run when something is to be built, and never here."""
    write_program(managed.project / "packages", "hidden")
    line = "./packages/hidden-1.0.tar.gz"
    if kind == "pip":
        (managed.project / "requirements.txt").write_text(f"--no-index\n{line}\n")
    else:
        text = f"channels: [{channel().file_url}]\ndependencies: [python, pip: [--no-index, {line}]]\n"
        (managed.project / "environment.yml").write_text(text)
    managed.script("import hidden; print('built on', hidden.BUILT_ON)")
    there, here = ada.path("hidden-was-built"), managed.client.env["HOME"]
    preflight = managed.holdfast("submit", "-c", "lab1", "--preflight", "train.py")
    assert preflight.code == 0, preflight
    assert "hidden has no wheel" in preflight.text
    for words in (
        ("submit", "-c", "lab1", "--dry-run", "train.py"),
        ("env", "show", "-c", "lab1"),
        ("check",),
    ):
        assert managed.holdfast(*words).code == 0, words
    assert not there.exists()
    result = managed.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, (result, managed.holdfast("history", "info", "-a", "control_log").text)
    assert f"built on {there.read_text().split()[0]}\n" in result.text
    assert managed.holdfast("env", "lock", "-c", "lab1").code == 0
    assert [name for name in os.listdir(here) if "built" in name] == []
    assert not list((managed.home / "solved").glob("?" * 64 + ".json")), "not used for another target"


def test_the_client_logs_in_to_no_address_that_a_project_names(managed: Laptop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"git+ssh://git@127.0.0.1:{listener.getsockname()[1]}/x.git"
        (managed.project / "requirements.txt").write_text(f"--no-index\nevil @ {address}\n")
        managed.script("print(1)")
        preflight = managed.holdfast("submit", "-c", "lab1", "--preflight", "train.py")
        assert preflight.code == 0, preflight
        assert "requires a login" in preflight.text
        refused = managed.holdfast("submit", "-c", "lab1", "train.py")
        assert refused.code == 65, refused
        with pytest.raises(BlockingIOError):
            listener.accept()


def _source_archive(path: Path) -> Path:
    texts = {
        "PKG-INFO": "Metadata-Version: 2.2\nName: slowbuild\nVersion: 1.0\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n'
        '[project]\nname = "slowbuild"\nversion = "1.0"\n',
        "slow.py": BACKEND,
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"slowbuild-1.0/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path
