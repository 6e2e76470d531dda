"""Whether a container reaches its GPU, at the start and while the script runs, with nodes that are no cards."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from conftest import eventually
from enginelab import IMAGE, Docker, Podman
from fakecuda import CARD, HAS_COMPILER, LIBRARY, FakeCuda
from holdfast.runner.container import gpu_passthrough
from holdfast.runner.gpu import probe_run
from sshlab import Unavailable

from .conftest import own_devices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ssh.conftest import Laptop
    from sshlab import Host, User

RUNNER = Path(holdfast.__file__).parent / "runner"
DEVICES = Path("/sys/fs/cgroup/devices")
WAITING = "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 3"
both = pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Docker | Podman:
    found: Docker | Podman = request.getfixturevalue(request.param)
    return found


class Box:
    """A container whose first process is ours; ``place`` is the attempt of a run."""

    def __init__(self, engine: Docker | Podman, place: Path) -> None:
        self.engine = engine
        self.place = place
        self.name = f"box-{place.name}-{os.getpid()}".lower()

    @contextmanager
    def running(self, script: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """With /dev/nvidiactl in it, which is /dev/null; ends with code 3 when it finds a file ``go``."""
        (self.place / "inside").mkdir()
        (self.place / "work").mkdir()
        program = "docker" if isinstance(self.engine, Docker) else "podman"
        argv = [program, "run", "--interactive", "--name", self.name, "--network", "none"]
        argv += ["--device", "/dev/null:/dev/nvidiactl", "--device", "/dev/null:/dev/nvidia0"]
        argv += ["--mount", f"type=bind,source={self.place},target={self.place}"]
        argv += ["--mount", f"type=bind,source={RUNNER},target=/runner,readonly", *words]
        argv += ["--entrypoint", "python3", IMAGE, "-E", "-s", "-S", "/runner/container/init.py"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(argv, env={**os.environ, **self.engine.environment}, **pipes)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._line(script))
            process.stdin.flush()
            assert process.stdout.readline() == b"up\n", process.communicate()
            yield process
        finally:
            self.engine.run("rm", "--force", self.name, check=False)
            process.communicate(timeout=120)

    def end(self, process: subprocess.Popen[bytes]) -> int:
        (self.place / "work" / "go").touch()
        return process.wait(120)

    @property
    def first(self) -> int:
        """The pid of its first process, seen from here."""
        return int(self.engine.run("inspect", "--format", "{{.State.Pid}}", self.name).stdout)

    def lost(self) -> dict[str, Any] | None:
        return probe_run.lost(os.fsencode(self.place))

    def _line(self, script: str) -> bytes:
        told = {
            "argv": ["/bin/sh", "-c", script],
            "folder": str(self.place / "work"),
            "env": {},
            "first": {},
            "umask": 0o077,
            "grace": 5,
            "note": str(self.place / "inside" / "note"),
            "folders": [],
            "touch": ["python3", "-B", "/runner/gpu/probe.py", "look"],
        }
        return json.dumps(told).encode("ascii") + b"\n"


@both
def test_a_node_that_goes_is_told_while_the_script_runs(engine: Docker | Podman, tmp_path: Path) -> None:
    box = Box(engine, tmp_path)
    with box.running(WAITING) as process:
        told = probe_run.told(os.fsencode(tmp_path))
        assert told is not None
        assert (told["ok"], told["facts"]["nodes"]) == (False, ["/dev/nvidia0", "/dev/nvidiactl"])
        assert box.lost() is None
        engine.run("exec", box.name, "rm", "/dev/nvidia0")
        eventually(lambda: box.lost() is not None, 60)
        lost = box.lost()
        assert lost is not None
        assert (lost["node"], lost["why"]) == ("/dev/nvidia0", "it no longer exists")
        engine.run("exec", box.name, "rm", "/dev/nvidiactl")
        assert process.poll() is None, "the script goes on"
        assert box.end(process) == 3
    assert box.lost() == lost, "it is told once"


@pytest.mark.skipif(not DEVICES.is_dir(), reason="NOT TESTED: control groups of version 1 have no devices here")
@both
def test_a_node_that_may_not_be_opened_any_more_is_told(engine: Docker | Podman, tmp_path: Path) -> None:
    """What happens when a machine's services are loaded anew: the nodes stay, and the kernel refuses them."""
    box = Box(engine, tmp_path)
    with box.running(WAITING) as process:
        group = next(
            line.split(":")[2]
            for line in Path(f"/proc/{box.first}/cgroup").read_text().splitlines()
            if line.split(":")[1] == "devices"
        )
        DEVICES.joinpath(group.lstrip("/"), "devices.deny").write_text("a")
        eventually(lambda: box.lost() is not None, 60)
        lost = box.lost()
        assert lost is not None
        assert (lost["node"], lost["why"]) == ("/dev/nvidia0", "it can no longer be opened")
        assert box.end(process) == 3


@both
def test_device_checks_are_fast_and_do_not_delay_reaping(engine: Docker | Podman, tmp_path: Path) -> None:
    """Dead orphans are gone before the next look; in ten seconds the first process uses next to no processor time."""
    script = f"for n in 1 2 3 4 5; do (sleep 0.1 &); done; {WAITING}"
    box = Box(engine, tmp_path)
    with box.running(script) as process:
        before = _used_s(box.first)
        eventually(lambda: _zombies(box.first) == 0 and not _sleepers(box.first), 4)
        engine.run("exec", box.name, "sleep", "10.5")
        assert _used_s(box.first) - before < 0.1
        assert box.lost() is None
        assert box.end(process) == 3
    assert box.lost() is None


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[tuple[str, str]]:
    """Name and state of each."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it is gone by now
            name, _, rest = Path(f"/proc/{child}/stat").read_text().partition(" (")[2].rpartition(") ")
            found.append((name, rest[0]))
    return found


def _zombies(pid: int) -> int:
    return sum(state == "Z" for _, state in _children(pid))


def _sleepers(pid: int) -> int:
    return sum(name == "sleep" for name, _ in _children(pid))


# A machine as NVIDIA's driver leaves it, but for the cards: nodes, and a library that is ours.
DRIVER = own_devices("for node in nvidiactl nvidia0 nvidia-uvm; do mknod -m 666 /run/dev/$node c 1 3; done")


@pytest.fixture
def machine(laptop: Laptop, gpu1: Host, ada: User, tmp_path: Path) -> Iterator[FakeCuda]:
    """A target ``box`` with a card, which docker hands to containers piece by piece."""
    if not HAS_COMPILER:
        pytest.skip("NOT TESTED: there is no C compiler here")
    (tmp_path / "fake").mkdir()
    driver = FakeCuda(tmp_path / "fake", CARD)
    laptop.client.trust(gpu1)
    ada.authorize(laptop.client.key())
    gpu1.run("sh", "-ec", DRIVER)
    place = f"/usr/lib/x86_64-linux-gnu/{LIBRARY}"
    gpu1.program(place, "")
    gpu1.path(place).write_bytes((driver.folder / LIBRARY).read_bytes())
    config = laptop.project / "aml_config"
    config.mkdir()
    lines = ["type: remotedocker", "engine: docker", f"baseDockerImage: {IMAGE}", "pythonLocation: python3"]
    lines += ["userManagedEnvironment: true", "nvidiaDocker: true", "network: none", f"address: {gpu1.hostname}"]
    lines += [f"username: {ada.name}", f"hostKey: {gpu1.public_key()}", ""]
    (config / "box.compute").write_text("\n".join(lines))
    laptop.trust("box")
    (laptop.project / "state").write_bytes((driver.folder / "state").read_bytes())
    yield driver
    laptop.close_connections()


def test_a_run_in_a_container_touches_its_gpu_first(machine: FakeCuda, laptop: Laptop, gpu1: Host, ada: User) -> None:
    laptop.script("print('only this')")
    try:
        with Docker(gpu1):
            result = laptop.holdfast("submit", "-c", "box", "-e", "FAKE_STATE=state", "train.py")
            assert result.code == 0, result
            assert laptop.holdfast("logs").text == "only this\n"
            attempt = ada.path(".holdfast/runs") / str(laptop.record()["uid"]) / "a1"
            told = probe_run.told(os.fsencode(attempt))
            assert told is not None
            assert (told["ok"], told["facts"]["devices"][0]["uuid"], told["facts"]["cuda"]) == (True, CARD.uuid, "12.4")
            machine.tell(CARD, more=["* fail cuInit 804"])
            (laptop.project / "state").write_bytes((machine.folder / "state").read_bytes())
            result = laptop.holdfast("submit", "-c", "box", "-e", "FAKE_STATE=state", "train.py")
            assert result.code == 0, result
            attempt = ada.path(".holdfast/runs") / str(laptop.record()["uid"]) / "a1"
            told = probe_run.told(os.fsencode(attempt))
            assert told is not None
            assert (told["ok"], "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)" in told["why"]) == (False, True)
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_a_target_of_containers_is_tested_in_one(machine: FakeCuda, laptop: Laptop, gpu1: Host, ada: User) -> None:
    """With the words that hand the card to a run's container; what is missing is told with what to type."""
    compute = laptop.project / "aml_config" / "box.compute"
    text = compute.read_text()
    gpu1.program("/srv/state", (machine.folder / "state").read_text())
    beside = f"type=bind,source=/srv/state,target={gpu_passthrough.FOLDER}/state,readonly"
    compute.write_text(f"{text}dockerArguments: --mount {beside}\n")
    laptop.trust("box")
    try:
        with Docker(gpu1) as docker:
            test = _tested(laptop, 0)
            assert test["state"] == "ok", test
            assert test["found"].startswith(f"{CARD.name}: 64 MB and a kernel in "), test
            assert test["found"].endswith(", in the container"), test
            assert docker.run("ps", "--all", "--quiet").stdout == ""
            machine.tell(CARD, more=["* fail cuDevicePrimaryCtxRetain 46"])
            gpu1.program("/srv/state", (machine.folder / "state").read_text())
            test = _tested(laptop, 65)
            assert (test["state"], "CUDA_ERROR_DEVICE_UNAVAILABLE (46)" in test["found"]) == ("failed", True), test
            compute.write_text(text.replace(IMAGE, "not/there:1"))
            test = _tested(laptop, 0)
            assert (test["state"], "not/there:1 is not pulled yet" in test["found"]) == ("skipped", True), test
            gpu1.path(f"/usr/lib/x86_64-linux-gnu/{LIBRARY}").unlink()
            test = _tested(laptop, 65)
            assert (test["state"], "libcuda.so.1 cannot be found" in test["found"]) == ("failed", True), test
            assert "install" in test["fix"]
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def _tested(laptop: Laptop, code: int) -> dict[str, Any]:
    result = laptop.holdfast("computetarget", "test", "box", "-o", "json")
    assert result.code == code, result
    found: dict[str, Any] = next(tick for tick in result.json if tick["name"] == "gpu test")
    return found
