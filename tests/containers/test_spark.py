"""Spark in a container: the template's result, and threads and memory within the container's limits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from spark import iris, quick_java

if TYPE_CHECKING:
    from containers.conftest import Seat

pytestmark = [pytest.mark.parametrize("ground", ["docker", "podman"], indirect=True), pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
LIMITS = """
runtime = sc._jvm.java.lang.Runtime.getRuntime()
print("threads", sc.defaultParallelism, runtime.availableProcessors())
print("heap", runtime.maxMemory() >> 20 <= 615)
"""


def arguments() -> str:
    """What makes the lab's image one with Java and PySpark; its Python is that of the packages."""
    quick_java.require()
    home = Path(os.path.realpath(str(shutil.which("java")))).parents[1]
    packages = next(libraries.interpreter(ROOT, libraries.SPARK).parents[1].glob("lib/python3.11/site-packages"), None)
    if packages is None:
        pytest.skip("NOT TESTED: the image's Python is 3.11, and that of the packages is another one")
    volumes = {home: "/usr/lib/jvm/java", packages.resolve(): libraries.IMAGE_PACKAGES}
    settings = (home / "lib" / "jvm.cfg").resolve().parent
    if home not in settings.parents:  # Debian has them below /etc
        volumes[settings] = str(settings)
    words = [f"--volume {source}:{place}:ro" for source, place in volumes.items()]
    return f"dockerArguments: {' '.join(words)}"


def test_template_has_the_same_result_in_a_container(seat: Seat) -> None:
    seat.target(arguments(), "memory: 2g")
    iris.copy_to(seat.desk, "box")
    options = f"JAVA_TOOL_OPTIONS={' '.join(quick_java.OPTIONS)}"
    done = seat.desk.holdfast("submit", "-c", "box", "-e", options, iris.SCRIPT, limit=400)
    iris.check(seat.desk, done)
    assert seat.desk.record()["spark"]["receipt"]["verdict"] == "used"


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
