"""``computetarget test``: each thing that can be wrong between here and there is named, with what to do about it."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from fakecuda import CARD, HAS_COMPILER, LIBRARY, FakeCuda
from sshlab import NoSuchPython

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import Host, How, Lab, User

THERE = ["dns", "tcp", "host key", "login", "shell", "python"]
ALL = [*THERE, "disk", "clock", "locks", "logout", "gpus", "engines"]


NVIDIA_SMI = """#!/bin/sh
case "$*" in
--query-gpu=*) echo '0, NVIDIA H200, GPU-1, 00000000:18:00.0, 9.0, 3201, 1980, 143771, 143771, 0, 0, 75, 30, Enabled, \
Disabled, 570.1' ;;
--query-*) ;;
*) echo 'CUDA Version: 12.8' ;;
esac
"""
CUDA_PLACE = "/usr/lib/x86_64-linux-gnu"


def give_card(host: Host, place: Path) -> FakeCuda:
    """NVIDIA's program and library, of a card that computes as its driver is told."""
    if not HAS_COMPILER:
        pytest.skip("NOT TESTED: there is no C compiler here")
    driver = FakeCuda(place, CARD._replace(name="NVIDIA H200"))
    host.program("/usr/local/bin/nvidia-smi", NVIDIA_SMI)
    host.program(f"{CUDA_PLACE}/{LIBRARY}", "")
    host.path(f"{CUDA_PLACE}/{LIBRARY}").write_bytes((driver.folder / LIBRARY).read_bytes())
    host.program(f"{CUDA_PLACE}/state", (driver.folder / "state").read_text())
    return driver


def test_a_machine_that_is_fit(attached: Laptop, gpu1: Host, ada: User, tmp_path: Path) -> None:
    give_card(gpu1, tmp_path)
    ada.write(".bashrc", "echo good morning\n")
    result = attached.holdfast("computetarget", "test", "lab1")
    assert result.code == 0, result
    ticks = [line[2:].split("  ")[0].strip() for line in result.text.splitlines() if line[0] != " "]
    assert ticks == [*ALL, "gpu test"]
    assert "NVIDIA H200 (151 GB); driver 570.1, CUDA 12.8" in result.text
    assert re.search(r"gpu test +NVIDIA H200: 64 MB and a kernel in \d+\.\d s, by /\S*python", result.text), result.text
    for words in (gpu1.address, gpu1.fingerprint(), "with your SSH key or agent", "/bin/bash", "NVIDIA H200"):
        assert words in result.text
    assert "print 13 bytes, which is harmless" in result.text


def test_a_card_that_is_not_reached_is_told_with_its_fix(
    attached: Laptop, gpu1: Host, ada: User, tmp_path: Path
) -> None:
    driver = give_card(gpu1, tmp_path)
    driver.tell(CARD, more=["* fail cuInit 803"])
    gpu1.program(f"{CUDA_PLACE}/state", (driver.folder / "state").read_text())
    code, ticks = _test(attached)
    assert (code, list(ticks)[-1], ticks["gpu test"]["state"]) == (65, "gpu test", "failed")
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)" in ticks["gpu test"]["found"]
    assert "restart the machine" in ticks["gpu test"]["fix"]
    told = attached.attach(ada, gpu1)
    assert told.code == 0, told
    assert re.search(r"gpu test +FAILED: NVIDIA's driver and its library are of different versions", told.err), told.err
    assert "try: restart the machine" in told.err


def test_a_way_that_leads_nowhere(attached: Laptop, lab: Lab, gpu1: Host) -> None:
    lab.name("gpu1.lab")
    code, ticks = _test(attached)
    assert (code, list(ticks), ticks["dns"]["state"]) == (69, ["dns"], "failed")
    assert "gpu1.lab cannot be resolved" in ticks["dns"]["found"]
    assert "computetarget attach remote --name lab1 --address gpu1.lab --username ada" in ticks["dns"]["fix"]
    lab.name("gpu1.lab", gpu1)
    cuts: list[tuple[How, str]] = [("reset", "connection refused on port 22"), ("unreachable", "no route to host")]
    for how, words in cuts:
        lab.cut(gpu1, how)
        code, ticks = _test(attached)
        assert (code, list(ticks), ticks["tcp"]["state"]) == (69, ["dns", "tcp"], "failed")
        assert words in ticks["tcp"]["found"]
        assert ticks["tcp"]["fix"]


def test_keys_that_do_not_fit(attached: Laptop, gpu1: Host, ada: User) -> None:
    ada.write(".ssh/authorized_keys", "", 0o600)
    code, ticks = _test(attached)  # although the connection that attaching made is still open
    assert (code, list(ticks)[-1], ticks["login"]["state"]) == (69, "login", "failed")
    assert "SSH authentication failed: " in ticks["login"]["found"]
    assert "holdfast computetarget attach remote --name lab1" in ticks["login"]["fix"]
    ada.authorize(attached.client.home / ".ssh/id_ed25519")
    assert attached.attach(ada, gpu1, "-k").code == 0
    assert "with a key created for this target" in _test(attached)[1]["login"]["found"]
    ours = ada.path(".ssh/authorized_keys").read_text().splitlines()[-1]
    ada.write(".ssh/authorized_keys", "", 0o600)
    assert ours in _test(attached)[1]["login"]["fix"]
    pinned = gpu1.fingerprint()
    gpu1.new_keys()
    code, ticks = _test(attached)
    assert (code, list(ticks)[-1], ticks["host key"]["state"]) == (76, "host key", "failed")
    assert f"pinned: {pinned} offered: {gpu1.fingerprint()}" in ticks["host key"]["found"]
    assert "computetarget detach lab1" in ticks["host key"]["fix"]


def test_what_the_users_own_ssh_says_counts(attached: Laptop, lab: Lab, gpu1: Host) -> None:
    gate = lab["gpu2"].user("gate")
    gate.authorize(attached.client.home / ".ssh/id_ed25519")
    attached.client.trust(lab["gpu2"])
    attached.client.config("Host gpu1.lab\n  ProxyJump gate@gpu2.lab\n")
    code, ticks = _test(attached)
    assert (code, list(ticks)) == (0, ALL)
    assert [ticks[name]["found"] for name in ("dns", "tcp")] == ["through gate@gpu2.lab"] * 2
    assert {ticks[name]["state"] for name in ("dns", "tcp")} == {"skipped"}
    attached.client.config("Host *\n  Nonsense yes\n")
    code, ticks = _test(attached)
    assert (code, list(ticks)) == (65, ["dns"])
    assert "nonsense" in ticks["dns"]["found"].lower()


def test_a_python_that_will_not_do(attached: Laptop, gpu1: Host) -> None:
    _set(attached, "pythonLocation", "/opt/none/bin/python3")
    code, ticks = _test(attached)
    assert (code, list(ticks)[-1], ticks["python"]["state"]) == (65, "python", "failed")
    assert "pythonLocation: " in ticks["python"]["fix"]
    old = "#!/bin/sh\nprintf '%s 1.5 2.7.18 /opt/old/python' `expr \"$2\" : \".*'\\(.*\\)',str\"`\n"
    gpu1.program("/opt/old/python", old)
    _set(attached, "pythonLocation", "/opt/old/python")
    code, ticks = _test(attached)
    assert (code, list(ticks)[-1]) == (65, "python")
    assert "2.7.18" in ticks["python"]["found"]
    gpu1.only_python(None)
    assert "apt-get install python3" in _test(attached)[1]["python"]["fix"]


def test_the_oldest_python_will_do(attached: Laptop, gpu1: Host) -> None:
    try:
        gpu1.only_python("3.6")
    except NoSuchPython as why:
        pytest.skip(f"NOT TESTED: {why}")
    _set(attached, "pythonLocation", "/usr/bin/python3")
    code, ticks = _test(attached)
    assert (code, list(ticks)) == (0, ALL)
    assert ticks["python"]["found"].startswith("3.6.")


def test_a_home_that_is_too_small_or_read_only(attached: Laptop, ada: User) -> None:
    key = ada.path(".ssh/authorized_keys").read_text()
    ada.small_home("64m")
    ada.write(".ssh/authorized_keys", key, 0o600)
    code, ticks = _test(attached)
    assert (code, ticks["disk"]["state"]) == (0, "warning")
    assert "root:" in ticks["disk"]["fix"]
    shutil.rmtree(ada.path(".holdfast"))
    ada.read_only_home()
    code, ticks = _test(attached)
    assert (code, list(ticks)[-1], ticks["disk"]["state"]) == (65, "disk", "failed")
    assert "root:" in ticks["disk"]["fix"]


def test_what_is_half_there_is_said(attached: Laptop, gpu1: Host) -> None:
    gpu1.program("/usr/local/bin/nvidia-smi", "#!/bin/sh\necho 'Driver/library version mismatch'; exit 18\n")
    gpu1.remove_programs("docker*", "podman*")
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(path.read_text().replace("type: remote", "type: remotedocker\nbaseDockerImage: x"))
    code, ticks = _test(attached)
    assert (code, ticks["gpus"]["state"], ticks["engines"]["state"]) == (65, "warning", "failed")
    assert "apt-get install podman" in ticks["engines"]["fix"]
    assert "version mismatch" in ticks["gpus"]["found"]
    gpu1.program("/usr/local/bin/docker", "#!/bin/sh\necho 'permission denied: /var/run/docker.sock' >&2; exit 1\n")
    assert "usermod -aG docker ada" in _test(attached)[1]["engines"]["fix"]
    gpu1.run("sed", "-i", r"s#^\(ada:.*\):/bin/bash$#\1:/usr/sbin/nologin#", "/etc/passwd")
    code, ticks = _test(attached)
    assert (code, list(ticks)[-1], ticks["shell"]["state"]) == (65, "shell", "failed")
    assert "chsh -s /bin/sh ada" in ticks["shell"]["fix"]


def test_a_clock_that_is_wrong(attached: Laptop, gpu1: Host) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("NOT TESTED: there is no faketime here")
    _set(attached, "pythonLocation", "/usr/local/bin/late-python")
    for by, words in (("+1h", "ahead"), ("-1h", "behind")):
        late = f'#!/bin/sh\nexec faketime -f {by} /usr/bin/python3 "$@"\n'
        gpu1.program("/usr/local/bin/late-python", late)
        code, ticks = _test(attached)
        assert (code, ticks["clock"]["state"]) == (0, "warning")
        assert words in ticks["clock"]["found"]
        assert "timedatectl" in ticks["clock"]["fix"]


def test_this_machine(desk: Desk) -> None:
    result = desk.holdfast("computetarget", "test", "local", "-o", "json")
    assert result.code == 0
    assert [row["name"] for row in result.json] == ALL[5:]
    assert desk.holdfast("computetarget", "test", "nowhere").code == 2
    os.makedirs(desk.project / "aml_config")
    (desk.project / "aml_config" / "odd.compute").write_text("type: nonsense\n")
    assert desk.holdfast("computetarget", "test", "odd").code == 65


def _test(laptop: Laptop) -> tuple[int, dict[str, dict[str, str]]]:
    result = laptop.holdfast("computetarget", "test", "lab1", "-o", "json")
    return result.code, {row["name"]: row for row in result.json}


def _set(laptop: Laptop, key: str, value: str) -> None:
    path = laptop.project / "aml_config" / "lab1.compute"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key}:")]
    path.write_text("\n".join([*lines, f"{key}: {value}", ""]))
    laptop.trust("lab1")
