"""One unmodified training script, from a folder to its results: Holdfast on three kinds of target, and other tools.

    python bench/first_run.py [local ssh docker plain-ssh mlflow guild]

The script parses arguments, prints its loss and writes checkpoints/last.pt; requirements.txt declares torch and numpy.
For each tool it prints the commands that a user types, the files that must be written first, the seconds with empty
caches and again, and what is there afterwards: loss, checkpoint, package versions. The box is an sshd on loopback.
Needs network, about 3 GB, sshd and docker; mlflow is installed into .tools. docs/performance.md says what dstack needs.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from enginelab import IMAGE, Docker  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

BIN = Path(sys.executable).parent
TOOLS = ROOT / ".tools"
TORCH = "torch==2.13.0"
SCRIPT = """\
import argparse
import os

import numpy
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
options = parser.parse_args()
torch.manual_seed(0)
x = torch.from_numpy(numpy.linspace(-1, 1, 256, dtype="float32"))[:, None]
model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
for step in range(50):
    loss = ((model(x) - torch.sin(3 * x)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step: %d loss: %.4f" % (step, loss))
os.makedirs("checkpoints", exist_ok=True)
torch.save(model.state_dict(), "checkpoints/last.pt")
"""
MLPROJECT = """\
name: sine
python_env: python_env.yaml
entry_points:
  main:
    parameters:
      lr: {type: float, default: 0.1}
    command: "python train.py --lr {lr}"
"""
PYTHON_ENV = f'python: "{sys.version.split()[0]}"\ndependencies:\n  - {TORCH}\n  - numpy\n'


class Result(NamedTuple):
    commands: list[str]
    files: list[str]
    first: float
    again: float
    kept: str


class Place:
    """A folder with the project, a home directory, and an sshd that logs in to this user."""

    def __init__(self, top: Path, stack: ExitStack) -> None:
        self.top = top
        self.project = top / "sine"
        self.project.mkdir()
        (self.project / "train.py").write_text(SCRIPT)
        (self.project / "requirements.txt").write_text(f"{TORCH}\nnumpy\n")
        self.home = top / "home"
        self.home.mkdir()
        self.stack = stack
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        path = f"{BIN}:/usr/sbin:{os.environ['PATH']}"
        self.env = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "UV_CACHE_DIR": str(top / "uv"), **pip}
        self.env.update(HOLDFAST_HOME=str(top / "store"), PIP_CACHE_DIR=str(top / "pip"), PYTHONDONTWRITEBYTECODE="1")
        for name in (".config/pip", ".pip"):
            if (Path.home() / name).is_dir():
                shutil.copytree(Path.home() / name, self.home / name)

    def time(self, *commands: str, check: bool = True) -> float:
        began = time.monotonic()
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.project, env=self.env, capture_output=True, check=False
            )
            if check and done.returncode:
                raise SystemExit(f"{command}\n{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-3000:]}")
        return time.monotonic() - began

    def box(self) -> str:
        """Start the sshd; returns the options of ssh for it."""
        folder = self.top / "sshd"
        folder.mkdir()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "user.pub", folder / "authorized")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = (
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        )
        (folder / "config").write_text(f"{config}StrictModes no\nUsePAM no\nPidFile {folder}/pid\n")
        Path("/run/sshd").mkdir(exist_ok=True)
        daemon = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", folder / "config"])
        self.stack.callback(daemon.terminate)
        key = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{port} {key}")
        known = f"-o UserKnownHostsFile={folder}/known -o IdentitiesOnly=yes"
        return f"-p {port} -i {folder}/user {known} {getpass.getuser()}@127.0.0.1"


def local(place: Place) -> Result:
    command = "holdfast submit -c local --scalars train.py --lr 0.1"
    return _holdfast(place, [], command)


def ssh(place: Place) -> Result:
    options = place.box().split()
    shown = ["ssh-keygen", "-lf", str(place.top / "sshd" / "host.pub")]
    fingerprint = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split()[1]
    place.time(
        f"holdfast attach {options[-1]} --name box --port {options[1]} --private-key-file {options[3]}"
        f" --root {place.top}/box-store --accept-host-key {fingerprint}"
    )
    return _holdfast(place, ["holdfast attach ada@box"], "holdfast submit -c box --scalars train.py --lr 0.1")


def docker(place: Place) -> Result:
    place.env.update(place.stack.enter_context(Docker(place.top, internet=True)).environment)
    folder = place.project / "aml_config"
    folder.mkdir()
    (folder / "box.compute").write_text(
        f"type: docker\nengine: docker\nbaseDockerImage: {IMAGE}\nenvironment: project\n"
    )
    result = _holdfast(place, [], "holdfast submit -c box --scalars train.py --lr 0.1")
    return result._replace(files=["aml_config/box.compute"])


def _holdfast(place: Place, before: list[str], command: str) -> Result:
    first, again = place.time(command), place.time(command)
    done = subprocess.run(
        ["holdfast", "info", "-r", "1", "-o", "json"], cwd=place.project, env=place.env, capture_output=True, check=True
    )
    record = json.loads(done.stdout)
    losses, packages = record["loss"], {row["name"]: row["version"] for row in record["packages"]}
    names = [row["path"] for row in record["outputs"].get("rows", [])] or record["attachments"]
    kept = f"{len(losses)} values of loss, {names}, torch {packages['torch']} of {len(packages)} packages"
    return Result([*before, command], [], first, again, kept)


def plain_ssh(place: Place) -> Result:
    options = place.box().split()
    login, flags = options[-1], " ".join(options[:-1])
    there = f"{place.top}/there"
    send = f"rsync -a -e 'ssh {flags}' ./ {login}:{there}/"
    python = "/usr/bin/python3"
    build = (
        f"ssh {flags} {login} 'cd {there} && {python} -m venv .venv && .venv/bin/pip install -q -r requirements.txt'"
    )
    run = f"ssh {flags} {login} 'cd {there} && .venv/bin/python train.py --lr 0.1 2>&1 | tee log'"
    fetch = f"rsync -a -e 'ssh {flags}' --exclude .venv {login}:{there}/ results/"
    first, again = place.time(send, build, run, fetch), place.time(send, run, fetch)
    kept = "log and checkpoint of the last run in results/; the next run replaces them"
    shown = [
        "rsync project to box",
        "ssh box venv, pip install",
        "ssh box python train.py | tee log",
        "rsync results back",
    ]
    return Result(shown, [], first, again, kept)


def mlflow(place: Place) -> Result:
    tool = _tool("mlflow", "mlflow==3.17.2")
    place.env["PATH"] = f"{tool}:{place.env['PATH']}"
    place.env["MLFLOW_TRACKING_URI"] = f"sqlite:///{place.top}/mlflow.db"
    (place.project / "MLproject").write_text(MLPROJECT)
    (place.project / "python_env.yaml").write_text(PYTHON_ENV)
    command = "mlflow run . --env-manager uv -P lr=0.1"
    first, again = place.time(command), place.time(command)
    search = "runs = mlflow.search_runs(search_all_experiments=True)"
    metrics = f"import mlflow; {search}; print(len(runs), [name for name in runs if name[:8] == 'metrics.'])"
    done = subprocess.run([tool / "python", "-c", metrics], env=place.env, capture_output=True, text=True, check=True)
    kept = f"runs and metrics: {done.stdout.strip()}; checkpoint written into the project itself"
    return Result([command], ["MLproject", "python_env.yaml"], first, again, kept)


def guild(place: Place) -> Result:
    place.env["PATH"] = f"{place.project}/.venv/bin:{place.env['PATH']}"
    install = "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt guildai==0.9.0 'setuptools<81'"
    command = "guild run -y train.py lr=0.1"
    first, again = place.time(install, command), place.time(command)
    shown = subprocess.run(
        ["guild", "runs", "info"], cwd=place.project, env=place.env, capture_output=True, text=True, check=False
    )
    files = subprocess.run(
        ["guild", "ls"], cwd=place.project, env=place.env, capture_output=True, text=True, check=False
    )
    scalars = "loss" in shown.stdout
    kept = f"loss: {scalars}; checkpoint: {'last.pt' in files.stdout}; local; a box needs config.yml and guild there"
    return Result(["python3 -m venv, pip install -r requirements.txt guildai", command], [], first, again, kept)


def _tool(name: str, *packages: str) -> Path:
    folder = TOOLS / f"first-{name}"
    if not (folder / "bin" / name).exists():
        subprocess.run([BIN / "uv", "venv", "-q", folder], check=True)
        subprocess.run(
            [BIN / "uv", "pip", "install", "-q", "--python", folder / "bin" / "python", *packages], check=True
        )
    return folder / "bin"


PARTS: dict[str, Callable[[Place], Result]] = {
    "local": local,
    "ssh": ssh,
    "docker": docker,
    "plain-ssh": plain_ssh,
    "mlflow": mlflow,
    "guild": guild,
}


def main(names: list[str]) -> int:
    for name in names or PARTS:
        with tempfile.TemporaryDirectory(prefix="first-") as top, ExitStack() as stack:
            result = PARTS[name](Place(Path(top), stack))
        print(f"{name}: {len(result.commands)} commands, {len(result.files)} files, "
              f"{result.first:.1f} s, again {result.again:.1f} s; {result.kept}")  # fmt: skip
        for command in result.commands:
            print(f"    {command}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
