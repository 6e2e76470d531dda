"""How cards get into a container, by a row for each kind of machine: trees of files that stand in for them.

``HOLDFAST_REWRITE_GOLDEN=1 pytest tests/unit/test_passthrough.py`` rewrites the expected texts; review the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.runner.container import gpu_passthrough, nvidia_files
from lab.pythons import OLDEST, python_of

GOLDEN = Path(__file__).parents[1] / "golden" / "passthrough"
SOURCE = str(Path(holdfast.__file__).parent)
PCI = "sys/bus/pci/devices/0000:17:00.0"
NODES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/nvidia-cap1")
SYSTEMS = {
    "ubuntu": 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n',
    "debian": "ID=debian\n",
    "fedora": "ID=fedora\n",
    "rocky": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
    "suse": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n',
    "arch": "ID=arch\n",
    "nixos": "ID=nixos\n",
}
DOCKER: dict[str, Any] = {"name": "docker", "version": "24.0.7", "runtimes": ["runc"], "cdi": []}
NEW_DOCKER: dict[str, Any] = {**DOCKER, "version": "28.3.0", "cdi": ["/etc/cdi", "/var/run/cdi"]}
PODMAN: dict[str, Any] = {"name": "podman", "version": "4.9.3", "runtimes": [], "cdi": []}
YAML = """\
cdiVersion: 0.5.0
containerEdits:
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
"""
JSON = json.dumps(
    {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    }
)


class Machine:
    """A tree of files as ``cards`` finds it on a machine with NVIDIA's driver 550."""

    def __init__(self, root: Path, system: str = "ubuntu") -> None:
        self.root = root
        self.put("etc/os-release", SYSTEMS[system])
        (root / "sys/bus/pci/devices").mkdir(parents=True)

    def put(self, path: str, text: str | bytes = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def card(self) -> Machine:
        self.put(f"{PCI}/vendor", "0x10de\n")
        self.put(f"{PCI}/class", "0x030200\n")
        # The sound of a card is no card.
        self.put("sys/bus/pci/devices/0000:17:00.1/vendor", "0x10de\n")
        self.put("sys/bus/pci/devices/0000:17:00.1/class", "0x040300\n")
        return self

    def driver(self, nodes: tuple[str, ...] = NODES) -> Machine:
        self.card().put("proc/driver/nvidia/version", "NVRM version: 550.54.14")
        for name in nodes:
            self.put(f"dev/{name}")
        return self

    def libraries(self, folder: str = "usr/lib/x86_64-linux-gnu", version: str = "550.54.14") -> Machine:
        for name, soname in (("cuda", "1"), ("nvidia-ml", "1"), ("nvidia-ptxjitcompiler", "1"), ("nvidia-nvvm", "4")):
            self.library(f"{folder}/lib{name}.so.{version}")
            (self.root / folder / f"lib{name}.so.{soname}").symlink_to(f"lib{name}.so.{version}")
        (self.root / folder / "libcuda.so").symlink_to("libcuda.so.1")
        self.library(f"{folder}/libnvidia-gpucomp.so.{version}")
        self.library(f"{folder}/libnvidia-glcore.so.{version}")
        return self.program("usr/bin/nvidia-smi")

    def library(self, path: str, bits: int = 64) -> None:
        self.put(path, b"\x7fELF" + bytes([bits // 32]))

    def program(self, path: str) -> Machine:
        self.put(path).chmod(0o755)
        return self

    def look(self, engine: dict[str, Any]) -> dict[str, Any]:
        return gpu_passthrough.look(engine, root=os.fsencode(self.root))


def whole(root: Path, system: str = "ubuntu") -> Machine:
    return Machine(root, system).driver().libraries()


def with_toolkit(root: Path) -> Machine:
    return whole(root).program("usr/bin/nvidia-ctk").program("usr/bin/nvidia-container-runtime-hook")


def with_spec(root: Path) -> Machine:
    machine = with_toolkit(root)
    machine.put("etc/cdi/nvidia.yaml", YAML)
    return machine


def with_old_spec(root: Path) -> Machine:
    machine = Machine(root).driver().libraries(version="570.1")
    machine.program("usr/bin/nvidia-ctk").put("etc/cdi/nvidia.yaml", YAML)
    return machine


def with_json_spec(root: Path) -> Machine:
    machine = whole(root)
    machine.put("var/run/cdi/nvidia.json", JSON)
    return machine


def wsl(root: Path) -> Machine:
    machine = Machine(root)
    machine.put("dev/dxg")
    return machine


ROWS = {
    "docker-hook": (DOCKER, with_toolkit),
    "docker-18-runtime": ({**DOCKER, "version": "18.09.1", "runtimes": ["nvidia", "runc"]}, with_toolkit),
    "docker-runtime-without-hook": ({**DOCKER, "runtimes": ["nvidia", "runc"]}, whole),
    "docker-24-spec": (DOCKER, with_spec),
    "docker-28-spec": (NEW_DOCKER, with_spec),
    "docker-28-spec-switched-off": ({**NEW_DOCKER, "cdi": []}, with_spec),
    "docker-28-old-spec": (NEW_DOCKER, with_old_spec),
    "docker-no-toolkit": (DOCKER, whole),
    "podman-spec": (PODMAN, with_spec),
    "podman-spec-in-run": (PODMAN, with_json_spec),
    "podman-4.0-spec": ({**PODMAN, "version": "4.0.2"}, with_spec),
    "podman-old-spec": (PODMAN, with_old_spec),
    "podman-hook": (PODMAN, with_toolkit),
    "podman-no-toolkit": (PODMAN, lambda root: whole(root, "fedora")),
    "no-card": (DOCKER, Machine),
    "no-driver-ubuntu": (DOCKER, lambda root: Machine(root).card()),
    "no-driver-debian": (PODMAN, lambda root: Machine(root, "debian").card()),
    "no-driver-fedora": (PODMAN, lambda root: Machine(root, "fedora").card()),
    "no-driver-rocky": (DOCKER, lambda root: Machine(root, "rocky").card()),
    "no-driver-suse": (DOCKER, lambda root: Machine(root, "suse").card()),
    "no-driver-arch": (PODMAN, lambda root: Machine(root, "arch").card()),
    "no-driver-nixos": (DOCKER, lambda root: Machine(root, "nixos").card()),
    "no-uvm": (DOCKER, lambda root: Machine(root).driver(("nvidia0", "nvidiactl")).libraries()),
    "no-nodes": (PODMAN, lambda root: Machine(root).driver(()).libraries()),
    "no-libraries": (DOCKER, lambda root: Machine(root).driver()),
    "wsl-no-toolkit": (DOCKER, wsl),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_row(tmp_path: Path, row: str) -> None:
    engine, machine = ROWS[row]
    found = text_of(machine(tmp_path).look(engine))
    golden = GOLDEN / f"{row}.txt"
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_no_golden_without_a_row() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_a_machine_is_refused_with_words_or_served_with_some(tmp_path: Path, row: str) -> None:
    engine, machine = ROWS[row]
    chosen = machine(tmp_path).look(engine)
    assert bool(chosen["refused"]) != bool(chosen["words"])
    assert bool(chosen["how"]) == bool(chosen["words"])


@pytest.mark.parametrize("version", ["1.6.4", "3.4.4", "4.0.0-dev", "4.9.3", "5.8.0"])
@pytest.mark.parametrize("machine", [whole, with_toolkit, with_spec, with_old_spec])
def test_podman_is_never_asked_by_gpus(tmp_path: Path, version: str, machine: Any) -> None:
    chosen = machine(tmp_path).look({**PODMAN, "version": version})
    assert chosen["words"]
    assert not [word for word in chosen["words"] if "--gpus" in word or "--runtime" in word]


def test_unreadable_engine_version_uses_device_nodes(tmp_path: Path) -> None:
    assert "/dev/nvidia0" in whole(tmp_path).look({**DOCKER, "version": "dev"})["words"]


def test_libraries_of_32_bits_and_of_graphics_stay_out(tmp_path: Path) -> None:
    machine = whole(tmp_path)
    machine.library("usr/lib/i386-linux-gnu/libcuda.so.550.54.14", bits=32)
    machine.library("usr/lib/libnvidia-cfg.so.1", bits=32)
    machine.put("etc/ld.so.conf.d/i386.conf", "# old programs\n/usr/lib/i386-linux-gnu\n")
    assert nvidia_files.facts(root=os.fsencode(tmp_path))["libraries"] == {
        "libcuda.so.1": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14",
        "libnvidia-gpucomp.so.550.54.14": "/usr/lib/x86_64-linux-gnu/libnvidia-gpucomp.so.550.54.14",
        "libnvidia-ml.so.1": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.14",
        "libnvidia-nvvm.so.4": "/usr/lib/x86_64-linux-gnu/libnvidia-nvvm.so.550.54.14",
        "libnvidia-ptxjitcompiler.so.1": "/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.550.54.14",
    }


def test_the_linker_s_own_folders_are_looked_into_first(tmp_path: Path) -> None:
    machine = whole(tmp_path).libraries("opt/nvidia/lib", "580.1")
    machine.put("etc/ld.so.conf.d/nvidia.conf", "/opt/nvidia/lib\n")
    found = nvidia_files.facts(root=os.fsencode(tmp_path))["libraries"]
    assert found["libcuda.so.1"] == "/opt/nvidia/lib/libcuda.so.580.1"


@pytest.mark.parametrize("text", ["kind: example.com/gpu\nname: all\n", "kind: nvidia.com/gpu\nname: gpu0\n", "{", ""])
def test_other_specifications_are_not_taken_for_nvidia_s(tmp_path: Path, text: str) -> None:
    machine = whole(tmp_path)
    machine.put("etc/cdi/other.yaml", text)
    machine.put("etc/cdi/nvidia.yaml.bak", YAML)
    assert nvidia_files.facts(root=os.fsencode(tmp_path))["cdi"] is None


def test_a_specification_that_fits_wins_over_one_that_does_not(tmp_path: Path) -> None:
    machine = with_old_spec(tmp_path)
    machine.put("var/run/cdi/nvidia.json", JSON)
    assert nvidia_files.facts(root=os.fsencode(tmp_path))["cdi"] == {
        "file": "/var/run/cdi/nvidia.json",
        "missing": "",
        "names": ["all"],
    }


GIVEN = [{"uuid": "GPU-b", "index": 1, "minor_number": 1}, {"uuid": "GPU-d", "index": 3, "minor_number": 3}]


@pytest.mark.parametrize(
    ("engine", "machine", "words"),
    [
        (DOCKER, {"hook": True}, ["--gpus", '"device=GPU-b,GPU-d"']),
        ({**DOCKER, "runtimes": ["nvidia"]}, {}, ["NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-d"]),
        (PODMAN, {"cdi": ["all", "0", "1", "2", "3"]}, ["nvidia.com/gpu=1", "nvidia.com/gpu=3"]),
        (PODMAN, {"cdi": ["all", "GPU-b", "GPU-d", "1", "3"]}, ["nvidia.com/gpu=GPU-b", "nvidia.com/gpu=GPU-d"]),
        (PODMAN, {"cdi": ["all"]}, ["nvidia.com/gpu=all"]),
        (PODMAN, {}, ["/dev/nvidia1", "/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm"]),
    ],
)
def test_only_the_cards_that_were_given_go_in(
    tmp_path: Path, engine: dict[str, Any], machine: dict[str, Any], words: list[str]
) -> None:
    nodes = [f"nvidia{n}" for n in range(4)]
    there = Machine(tmp_path).driver((*nodes, "nvidiactl", "nvidia-uvm")).libraries()
    facts = nvidia_files.facts(root=os.fsencode(there.root))
    if "cdi" in machine:
        facts["cdi"] = {"file": "/etc/cdi/nvidia.yaml", "missing": "", "names": machine["cdi"]}
    facts["hook"] = machine.get("hook", False)
    chosen = gpu_passthrough.choose(engine, facts, GIVEN)["words"]
    assert set(words) <= set(chosen)
    assert not {"/dev/nvidia0", "/dev/nvidia2", "nvidia.com/gpu=0", "all"} & set(chosen)


def test_this_machine_can_be_looked_at() -> None:
    chosen = gpu_passthrough.look(DOCKER)
    assert bool(chosen["refused"]) != bool(chosen["words"])


def test_the_oldest_python_answers_the_same_without_a_locale(tmp_path: Path) -> None:
    python = python_of(OLDEST)
    machine = whole(tmp_path / "é")
    code = "import json, os, sys; from runner.container import gpu_passthrough as p; e, r = sys.argv[1:]; "
    code += "print(json.dumps(p.look(json.loads(e), None, os.fsencode(r))))"
    env = {"PYTHONPATH": SOURCE, "LC_ALL": "C", "PATH": os.environ["PATH"]}
    command = [python, "-B", "-c", code, json.dumps(DOCKER), str(machine.root)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    assert json.loads(told) == machine.look(DOCKER)


def text_of(chosen: dict[str, Any]) -> str:
    """An option a line, as it would be typed."""
    lines = " ".join(chosen["words"]).replace(" -", "\n-").split("\n") if chosen["words"] else []
    lines += [f"{name}={value}" for name, value in chosen["environment"].items()]
    return "\n".join([*lines, *(f"{key}: {chosen[key]}" for key in ("how", "advice", "refused") if chosen[key])]) + "\n"
