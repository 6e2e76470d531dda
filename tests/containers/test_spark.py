"""Spark in a container, here and over SSH: the template's result, and threads and memory within its limits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from spark import iris, quick_java
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from containers.conftest import Seat

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
ROOT = Path(__file__).resolve().parents[2]
LIMITS = """
runtime = sc._jvm.java.lang.Runtime.getRuntime()
print("threads", sc.defaultParallelism, runtime.availableProcessors())
print("heap", runtime.maxMemory() >> 20 <= 615)
"""


def packages() -> Path:
    """Those of a Python that is the image's too."""
    quick_java.require()
    folder = next(libraries.interpreter(ROOT, libraries.SPARK).parents[1].glob("lib/python3.11/site-packages"), None)
    if folder is None:
        pytest.skip("NOT TESTED: the image's Python is 3.11, and that of the packages is another one")
    return folder.resolve()


@pytest.fixture(scope="module")
def machines() -> Iterator[Lab]:
    """One with the packages at the same place as here."""
    try:
        with Lab(hosts=("gpu1",), shares={str(packages()): packages()}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def arguments() -> str:
    """What makes the lab's image one with Java and PySpark."""
    home = Path(os.path.realpath(str(shutil.which("java")))).parents[1]
    volumes = {packages(): libraries.IMAGE_PACKAGES, home: "/usr/lib/jvm/java"}
    settings = (home / "lib" / "jvm.cfg").resolve().parent
    if home not in settings.parents:  # Debian has them below /etc
        volumes[settings] = str(settings)
    words = [f"--volume {source}:{place}:ro" for source, place in volumes.items()]
    return f"dockerArguments: {' '.join(words)}"


@pytest.mark.parametrize("ground", ["docker", "podman", "remote-docker"], indirect=True)
def test_template_has_the_same_result_in_a_container(seat: Seat) -> None:
    seat.target(arguments(), "memory: 2g")
    iris.copy_to(seat.desk, "box")
    options = f"JAVA_TOOL_OPTIONS={' '.join(quick_java.OPTIONS)}"
    done = seat.desk.holdfast("submit", "-c", "box", "-e", options, iris.SCRIPT, limit=400)
    iris.check(seat.desk, done)
    assert seat.desk.record()["spark"]["receipt"]["verdict"] == "used"


@pytest.mark.parametrize("ground", ["docker", "podman"], indirect=True)
def test_threads_and_heap_stay_within_the_limits_of_the_container(seat: Seat) -> None:
    config = seat.desk.project / "aml_config"
    (config / "box.runconfig").write_text("Target: box\n")
    seat.target(arguments(), "memory: 1g", "cpus: 1")
    done = seat.submit(LIMITS, limit=400)
    assert done.code == 0, done
    assert "threads 1 1\nheap True\n" in done.text
    (config / "spark_dependencies.yml").write_text("configuration:\n  spark.driver.memory: 2g\n")
    refused = seat.submit(LIMITS)
    assert refused.code == 65
    assert "spark.driver.memory is 2g, and its container has 953 MB" in refused.err
    assert "aml_config/spark_dependencies.yml:2" in refused.err
