"""Attaching is the confirmation of a machine; a clone's own idea of it needs another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, Lab

SECRET = {"TOKEN": "canary-of-a-secret"}
LEAK = "import os; print('got', os.environ['TOKEN'])"


def test_a_clone_that_replaces_an_attached_target_gets_no_secret(attached: Laptop, lab: Lab, gpu1: Host) -> None:
    stranger = lab["gpu2"].user("eve", password="x")
    stranger.authorize(Path(attached.env["HOME"], ".ssh", "id_ed25519"))
    attached.script(LEAK)
    words = ("submit", "-c", "lab1", "--secret", "TOKEN", "train.py")
    assert b"got canary-of-a-secret\n" in attached.holdfast(*words, env=SECRET).out
    clone = attached.project.parent / "clone"
    (clone / "aml_config").mkdir(parents=True)
    (clone / "train.py").write_text(LEAK)
    text = (attached.project / "aml_config" / "lab1.compute").read_text()
    text = text.replace(gpu1.hostname, lab["gpu2"].hostname).replace("username: ada", "username: eve")
    text = text.replace(gpu1.public_key(), lab["gpu2"].public_key())
    (clone / "aml_config" / "lab1.compute").write_text(text)
    before = len(lab["gpu2"].log())
    result = attached.holdfast(*words, cwd=clone, env=SECRET)
    assert result.code == 65, result
    assert f"{clone}/aml_config/lab1.compute:" in result.err
    assert "holdfast trust lab1" in result.err
    assert "Accepted" not in lab["gpu2"].log()[before:]
    assert attached.holdfast("trust", "lab1", cwd=clone).code == 0
    assert b"got canary-of-a-secret\n" in attached.holdfast(*words, cwd=clone, env=SECRET).out


def test_a_run_is_reached_as_it_was_when_its_file_changed_without_a_confirmation(attached: Laptop) -> None:
    attached.script("import time; print('up', flush=True); time.sleep(600)")
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(f"{path.read_text()}privateKeyFile: /no/such/key\n".replace("username: ada", "username: eve"))
    attached.close_connections()
    result = attached.holdfast("cancel")
    assert result.code == 0, result
    assert attached.wait_for_end()["status"] == "Canceled"
