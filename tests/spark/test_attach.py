"""What attach writes for a Spark cluster, which a submit then accepts, and how runs without a Framework line start."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

ATTACH = ("computetarget", "attach", "cluster", "--name", "sp1", "--address")


@pytest.fixture
def port() -> Iterator[int]:
    """Of something that answers; attach sends nothing to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("spark://127.0.0.1:{port}", "master"),
        ("spark://127.0.0.1:{port},127.0.0.1:9", "master"),
        ("sc://127.0.0.1:{port}", "remote"),
        ("sc://127.0.0.1:{port}/;user_id=ada", "remote"),
    ],
)
def test_submit_accepts_what_attach_writes(desk: Desk, port: int, address: str, key: str) -> None:
    address = address.format(port=port)
    attached = desk.holdfast(*ATTACH, address)
    assert attached.code == 0, attached
    desk.script("print(spark.range(3).count())")
    plan = desk.holdfast("submit", "-c", "sp1", "--dry-run", "train.py")
    asked = {"uses_spark": True}  # its version, before the first line
    assert (plan.code, plan.json["spark"]) == (0, {key: address, **asked})
    assert "warning" not in plan.err
    assert desk.holdfast("check").text == "no findings\n"
    assert "environment: project\n" in (desk.project / "aml_config" / "sp1.compute").read_text()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--username", "ada"), "--username"),
        (("--username", "ada", "--password", "secret"), "--username"),
        (("--password", "secret"), "--password"),
        (("--port", "7077"), "--port"),
        (("--root", "/srv"), "--root"),
    ],
)
def test_attach_of_a_master_refuses_options_of_a_login(
    desk: Desk, port: int, words: tuple[str, ...], option: str
) -> None:
    done = desk.holdfast(*ATTACH, f"spark://127.0.0.1:{port}", *words)
    assert done.code == 2
    assert f"{option} is for machines that are reached by SSH" in done.err
    assert not (desk.project / "aml_config").exists()


MANUAL = "type: local\npythonLocation: python\nsparkSubmitLocation: spark-submit\nuserManagedEnvironment: true\n"


@pytest.mark.parametrize(
    "configuration",
    ["Target: local\nArgumentVector:\n- $file\n", json.dumps({"Target": "local", "ArgumentVector": ["$file"]})],
)
def test_missing_framework_on_a_target_with_its_own_spark_is_plain_python(desk: Desk, configuration: str) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "local.compute").write_text(MANUAL)
    (config / "local.runconfig").write_text(configuration)
    desk.trust("local")
    desk.script("import sys\nprint(type(spark).__name__, 'pyspark' in sys.modules)\nsys.exit(3)")
    done = desk.holdfast("submit", "-c", "local", "train.py")
    assert done.code == 3
    assert "LazyName False" in done.text
    assert "warning" not in done.err
    assert "spark" not in desk.record()
