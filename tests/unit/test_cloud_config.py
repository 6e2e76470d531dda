"""The cloud-init file of ``holdfast computetarget setup-script``, judged by cloud-init's own schema."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from holdfast.engine.machines import cloud_config
from holdfast.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from conftest import Desk

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINYcy9fVIfqGeQ3hiIttCksjF2f2gp/JP63QdUBgeeGT Ada\'s "laptop" ü'
TOOLS = Path(__file__).parents[2] / ".tools" / "cloud-init"
SCHEMA = "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"


@pytest.fixture(scope="module")
def schema() -> Any:
    """That of Debian's package, which is downloaded and not installed: it would configure this machine."""
    if not (TOOLS / SCHEMA).exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["apt-get", "download", "-q", "cloud-init"], cwd=TOOLS, check=True, capture_output=True)
            (package,) = TOOLS.glob("cloud-init_*.deb")
            subprocess.run(["dpkg", "-x", str(package), str(TOOLS)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"NOT TESTED: Debian's package cloud-init cannot be had here: {error}")
    return json.loads((TOOLS / SCHEMA).read_text())


@pytest.mark.parametrize("gpu", [True, False], ids=["gpu", "plain"])
def test_file_is_valid_by_the_schema_of_cloud_init(schema: Any, *, gpu: bool) -> None:
    text = cloud_config.text("ada", KEY, gpu=gpu)
    assert text.startswith("#cloud-config\n")
    document = YAML(typ="safe").load(text)
    jsonschema.Draft4Validator(schema).validate(document)
    assert document["users"][1]["ssh_authorized_keys"] == [KEY]
    assert ("power_state" in document) is gpu
    document["users"][1]["ssh_authorized_keys"] = 5
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(schema).validate(document)


def test_commands_are_a_script_that_a_shell_can_read() -> None:
    script = "\n".join(cloud_config.commands("ada", gpu=True))
    checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "sudo" not in script
    assert script.index("enable-linger ada") < script.index("ubuntu-drivers") < script.index("nvidia-ctk")


def test_command_prints_the_file_with_the_users_own_key(desk: Desk, tmp_path: Path) -> None:
    refused = desk.holdfast("computetarget", "setup-script", env={"HOME": str(tmp_path)})
    assert (refused.code, "ssh-keygen -t ed25519" in refused.err) == (65, True)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text(f"{KEY}\n")
    result = desk.holdfast("computetarget", "setup-script", "--gpu", env={"HOME": str(tmp_path), "USER": "ada"})
    assert (result.code, result.text) == (0, cloud_config.text("ada", KEY, gpu=True))


def test_private_keys_several_keys_and_odd_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content in ("-----BEGIN OPENSSH PRIVATE KEY-----\n", f"{KEY}\n{KEY}\n", 'command="rm" ' + KEY, ""):
        path.write_text(content)
        with pytest.raises(ConfigError, match="not one public key"):
            cloud_config.public_key(str(path))
    for name in ("root", "Ada", "a;reboot", "", "-x"):
        with pytest.raises(UsageError):
            cloud_config.user_name(name)
