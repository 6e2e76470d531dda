"""The kinds of target, row by row."""

from __future__ import annotations

import pytest

from holdfast import kinds

# type -> remote, over SSH, in a container, available, kind with a container, kind of the machine, what attach writes
ROWS = {
    "local": (False, False, False, True, "docker", "", None),
    "docker": (False, False, True, True, "", "", None),
    "localdocker": (False, False, True, True, "", "", None),
    "remote": (True, True, False, True, "remotedocker", "", (("environment", "project"),)),
    "remotedocker": (
        True,
        True,
        True,
        True,
        "",
        "remote",
        (("environment", "project"), ("nativeSharedDirectory", "~/.azureml/share/"), ("sharedVolumes", True)),
    ),
    "virtualmachine": (True, True, True, True, "", "remote", None),
    "cluster": (True, True, False, True, "", "remote", (("environment", "project"), ("yarnDeployMode", "client"))),
    "spark": (False, False, False, True, "", "", (("environment", "project"),)),
    "slurm": (False, True, False, False, "", "remote", None),
    "ray": (False, True, False, False, "", "remote", None),
}


@pytest.mark.parametrize("name", ROWS)
def test_row_of_a_kind(name: str) -> None:
    kind = kinds.of(name)
    assert (kind.is_remote, kind.over_ssh, kind.in_container, kind.is_available) == ROWS[name][:4]
    assert (kind.container_kind, kind.machine_kind, kind.attach_settings) == ROWS[name][4:]


def test_names_of_kinds_are_complete_and_in_order() -> None:
    assert kinds.names() == list(ROWS)
    assert kinds.available() == list(ROWS)[:8]
    assert kinds.attachable() == ["remotedocker", "remote", "cluster"]


def test_unknown_kind_can_do_nothing() -> None:
    kind = kinds.of("other")
    assert not kinds.is_known("other")
    assert not kind.is_available
    assert (kind.is_remote, kind.over_ssh, kind.in_container) == (False, False, False)
