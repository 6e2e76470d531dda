"""The GPU guide in its five languages, typed into bash: Microsoft's own ``az``, an SSH box with docker and a card.

The card is a library of ours; packages are those of the image. That the guide's conda files are built is seen in
tests/e2e/test_environments_guide.py.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azure_cli import guide
from azure_cli.conftest import AZ, REPOSITORY
from enginelab import Docker
from fakecuda import CARD, HAS_COMPILER, LIBRARY, FakeCuda
from fakenvml import FakeGpus, Gpu
from holdfast.withdrawn import CUDA_IMAGE
from ssh.conftest import PASSWORD
from sshlab import Unavailable

if TYPE_CHECKING:
    from azure_cli.conftest import AzureCli
    from conftest import Desk, Result
    from ssh.conftest import Laptop
    from sshlab import Host, User

K80 = Gpu(
    "Tesla K80", CARD.uuid, "06c3:00:00", "3.7", 11_995_578_368, used=64_487_424, memory_clock=2505, core_clock=824
)
SCRIPT = """
from azureml.logging import get_azureml_logger
get_azureml_logger().log('Accuracy', 0.98)
print('trained')
"""
# TensorFlow printed the core clock as the memory clock.
FIVE_LINES = guide.FIVE_LINES.replace("0.8235", "2.5050")
OWN_IMAGE = "userManagedEnvironment: true\npythonLocation: python3\nnetwork: none\n"
# Languages that print the same commands and the same two lines are one scene.
SCENES = {(page.attach, page.image): page for page in guide.GUIDES.values()}


def card(gpu1: Host, place: Path) -> None:
    """The libraries and device nodes of NVIDIA's driver."""
    from containers.conftest import own_devices

    place.mkdir()
    folder = Path("/usr/lib/x86_64-linux-gnu")
    gpu1.run(
        "sh", "-ec", own_devices("for node in nvidiactl nvidia0 nvidia-uvm; do mknod -m 666 /run/dev/$node c 1 3; done")
    )
    nvml, cuda = FakeGpus(place, K80), FakeCuda(place, CARD)
    for name, source in ((LIBRARY, cuda.folder), ("libnvidia-ml.so.1", nvml.folder)):
        gpu1.program(str(folder / name), "")
        gpu1.path(str(folder / name)).write_bytes((source / name).read_bytes())
    gpu1.program(str(folder / "state"), (nvml.folder / "state").read_text())


@pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
@pytest.mark.parametrize("page", SCENES.values(), ids=["with-type", "with-word"])
def test_guide_from_its_first_to_its_last_line(
    laptop: Laptop, gpu1: Host, ada: User, az: AzureCli, tmp_path: Path, page: guide.Guide
) -> None:
    def typed(line: str) -> Result:
        env = {**az.env, "PATH": f"{AZ.parent}:{laptop.env['PATH']}"}
        return laptop.holdfast("-c", line, command="/bin/bash", env=env, limit=280)

    laptop.client.trust(gpu1)
    for name in ("my-deep-learning-script.py", "my_tensorflow_or_cntk_script.py"):
        (laptop.project / name).write_text(SCRIPT)
    config = laptop.project / "aml_config"
    local = typed(guide.LOCAL)
    assert (local.code, "trained\n" in local.text) == (0, True), local
    filled = page.attach.replace("my_dsvm_ip_address", gpu1.hostname).replace("my_name", ada.name)
    try:
        card(gpu1, tmp_path / "card")
        with Docker(gpu1) as docker:
            docker.run("tag", "base:py", CUDA_IMAGE)
            attached = typed(filled.replace("my_password", PASSWORD))
            assert attached.code == 0, attached
            assert sorted(path.name for path in config.iterdir()) == ["my_dsvm.compute", "my_dsvm.runconfig"]
            compute, runconfig = config / "my_dsvm.compute", config / "my_dsvm.runconfig"
            changed = ("baseDockerImage", "environment")
            kept = [line for line in compute.read_text().splitlines() if not line.startswith(changed)]
            compute.write_text("\n".join([f"baseDockerImage: {page.image}", *kept, guide.NVIDIA, OWN_IMAGE]))
            lines = [line for line in runconfig.read_text().splitlines() if not line.startswith("Framework")]
            runconfig.write_text("\n".join([*lines, guide.FRAMEWORK, ""]))
            (config / "conda_dependencies.yml").write_text(page.conda[0])
            result = typed(guide.SUBMIT)
            assert result.code == 0, result
            assert f"{page.image} was withdrawn" in result.err
            assert FIVE_LINES in result.text
            assert "trained\n" in result.text
            assert laptop.record()["Accuracy"] == 0.98
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.mark.parametrize("text", sorted({text for page in guide.GUIDES.values() for text in page.conda}))
def test_conda_blocks_are_replaced_as_a_diff_shows(desk: Desk, text: str) -> None:
    """With LF and with the CRLF of a Windows editor."""
    path = desk.project / "aml_config" / "conda_dependencies.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    for end in ("\n", "\r\n"):
        path.write_bytes(text.replace("\n", end).encode())
        seen = desk.holdfast("check")
        assert "Python 3.5.2 is too old" in seen.text, seen
        fixed = desk.holdfast("check", "--fix")
        assert "+  - python=3.6" in fixed.text, fixed
        after = path.read_bytes().decode()
        assert "cntk.ai" not in after
        assert after.count(end) == after.count("\n")
        assert [line for line in after.split(end) if "#" in line] == [line for line in text.split("\n") if "#" in line]


@pytest.mark.parametrize("wheel", sorted({page.wheel for page in guide.GUIDES.values()}))
def test_lines_of_the_first_listing_run_in_the_shell(desk: Desk, wheel: str) -> None:
    """``pip`` declares there, and ``check`` says what the next run replaces."""
    made = desk.holdfast("project", "create", "--name", "MyProj", "--path", ".")
    assert made.code == 0, made
    project = desk.project / "MyProj"
    (project / "my-deep-learning-script.py").write_text(SCRIPT)
    listing = f"{guide.LOCAL}\n{guide.REM}\n{guide.PIP}\n{guide.REM}\npip install {wheel}\n".encode()
    with desk.start("shell", stdin=subprocess.PIPE, env={"SHELL": "/bin/bash"}, cwd=project) as shell:
        out, err = shell.communicate(listing, timeout=120)
    assert (shell.returncode, b"trained\n" in out, b"REM" in err) == (0, True, False), err
    assert (project / "requirements.txt").read_text() == f"tensorflow-gpu\n{wheel}\n"
    seen = desk.holdfast("check", cwd=project).text
    assert "tensorflow-gpu can no longer be installed" in seen
    assert "cntk.ai no longer has wheels" in seen
    assert "write cntk-gpu==2." in seen


def test_cmd_and_bash_split_the_lines_of_the_guide_alike() -> None:
    """cmd knows double quotes only, and bash reads what is in them as it is unless one of these characters is there."""
    lines = {guide.LOCAL, guide.SUBMIT, *(page.attach for page in guide.GUIDES.values())}
    for line in lines:
        assert not set(line) & set("'$`\\!^%&|<>()"), line
        by_cmd = [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^\s"]+)', line)]
        assert by_cmd == shlex.split(line)


def test_every_step_of_the_guide_is_proved_by_a_test() -> None:
    """The table and the count of docs/azure-cli.md are made from the steps by tools/docs.py."""
    assert len(guide.STEPS) == 32
    assert {step.outcome for step in guide.STEPS} == set(guide.OUTCOMES)
    for step in guide.STEPS:
        file, _, function = step.proof.partition("::")
        assert f"\ndef {function}(" in (REPOSITORY / "tests" / file).read_text(), step


def test_data_is_that_of_the_guide() -> None:
    """Where the guide's own pages are at hand, every line here is one of theirs."""
    folder = os.environ.get("HOLDFAST_TEST_GUIDE")
    if not folder:
        pytest.skip("NOT TESTED: HOLDFAST_TEST_GUIDE names no folder with the guide's pages")
    for language, page in guide.GUIDES.items():
        text = (Path(folder) / f"guide.{language}.md").read_text().replace("\r\n", "\n")
        blocks = (page.attach, f"baseDockerImage: {page.image}\n{guide.NVIDIA}\n", guide.FRAMEWORK, *page.conda)
        assert [
            block
            for block in (*blocks, guide.REM, guide.PIP, page.wheel, guide.LOCAL, guide.SUBMIT, guide.FIVE_LINES)
            if block not in text
        ] == []
