"""The guide's own journey: a machine with docker is attached, prepared and used, and no file is edited."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from enginelab import Docker, Podman
from holdfast.amlconfig.types import DEFAULT_IMAGE
from holdfast.withdrawn import CUDA_IMAGE as CUDA
from ssh.conftest import PASSWORD
from sshlab import Unavailable

from .conftest import own_devices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User

TRAIN = """
from azureml.logging import get_azureml_logger
import os
get_azureml_logger().log('Accuracy', 0.98)
print('in', os.environ['HOME'], 'AZUREML_NATIVE_SHARE_DIRECTORY' in os.environ)
"""
ATTACH = "--name my_dsvm --address {host} --username ada --password {password}"
CDI = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: all
  containerEdits:
    env:
    - SEEN_BY_CDI=all
"""
# A driver is believed to be there when its control node is.
DRIVER = own_devices("touch /run/dev/nvidiactl")


@pytest.fixture
def dsvm(laptop: Laptop, lab: Lab, gpu1: Host, ada: User) -> Iterator[Laptop]:
    laptop.client.trust(gpu1)
    laptop.script(TRAIN)
    yield laptop
    laptop.close_connections()


@pytest.mark.parametrize(
    "words",
    [f"az ml computetarget attach {ATTACH} --type remotedocker", f"computetarget attach remotedocker {ATTACH}"],
    ids=["az", "holdfast"],
)
def test_the_two_files_that_attach_wrote_are_enough(dsvm: Laptop, gpu1: Host, ada: User, words: str) -> None:
    try:
        with Docker(gpu1) as docker:
            docker.run("tag", "base:py", DEFAULT_IMAGE)
            line = words.format(host=gpu1.hostname, password=PASSWORD)
            if words.startswith("az"):
                with dsvm.start("shell", stdin=subprocess.PIPE, env={"SHELL": "/bin/bash"}) as shell:  # ``az`` is us
                    _, err = shell.communicate(f"{line}\n".encode(), timeout=120)
                assert (shell.returncode, b"with a key created for this target" in err) == (0, True), err
            else:
                result = dsvm.holdfast(*line.split())
                assert (result.code, "with a key created for this target" in result.err) == (0, True), result
            config = dsvm.project / "aml_config"
            assert sorted(path.name for path in config.iterdir()) == ["my_dsvm.compute", "my_dsvm.runconfig"]
            assert PASSWORD not in "".join(path.read_text() for path in config.iterdir())
            prepared = dsvm.holdfast("experiment", "prepare", "-c", "my_dsvm")
            assert prepared.code == 0, prepared
            result = dsvm.holdfast("experiment", "submit", "-c", "my_dsvm", "train.py")
            assert result.code == 0, result
            assert "in /tmp True\n" in result.text
            assert dsvm.record()["Accuracy"] == 0.98
            eventually(lambda: docker.run("ps", "--all", "--quiet").stdout == "", 60)
            there = [path for path in ada.path().rglob("*") if path.is_file() and not path.is_symlink()]
            assert not [path for path in there if PASSWORD.encode() in path.read_bytes()]
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_a_withdrawn_image_is_replaced_and_cards_come_by_cdi(dsvm: Laptop, gpu1: Host, ada: User) -> None:
    try:
        with Podman(gpu1) as podman:
            podman.admit(ada)
            line = f"computetarget attach remotedocker {ATTACH}".format(host=gpu1.hostname, password=PASSWORD)
            gpu1.remove_programs("docker")
            result = dsvm.holdfast(*line.split())
            assert result.code == 0, result
            path = dsvm.project / "aml_config" / "my_dsvm.compute"
            text = path.read_text().replace(
                f"baseDockerImage: {DEFAULT_IMAGE}", "baseDockerImage: microsoft/mmlspark:plus-gpu-0.7.91"
            )
            path.write_text(text.replace("nvidiaDocker: false", "nvidiaDocker: true") + "network: none\n")
            dsvm.script("import os; print('cards', os.environ['SEEN_BY_CDI'])")
            refused = dsvm.holdfast("submit", "-c", "my_dsvm", "train.py")
            assert refused.code == 81, refused  # no attempt was made to pull the image, which is not there
            assert "was withdrawn" in refused.err
            assert "ERROR: the container cannot have a GPU" in refused.err
            assert "this machine has no NVIDIA GPU: write nvidiaDocker: false" in refused.err
            checked = dsvm.holdfast("submit", "--preflight", "-o", "json", "-c", "my_dsvm", "train.py")
            ticks = {tick["name"]: tick["state"] for tick in checked.json}
            assert (checked.code, ticks["gpus"], ticks["disk"]) == (81, "failed", "ok"), checked
            ada.run("podman", "tag", "base:py", CUDA)
            gpu1.run("sh", "-ec", DRIVER)
            gpu1.program("/etc/cdi/nvidia.yaml", CDI)
            result = dsvm.holdfast("submit", "-c", "my_dsvm", "train.py")
            assert "cards all\n" in result.text, result
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")
