"""A master of another Spark version, and executors with another Python, are refused before a JVM starts.

The page of the master is a double with the lines of a real one; test_remote_workers.py reads that of a real master.
"""

from __future__ import annotations

import http.server
import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.machines import spark_cluster
from holdfast.script_api.spark import master_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from spark.conftest import SparkDesk

HOST = "127.18.40.1"  # a loopback address of its own, for a page at Spark's usual port
PAGE = """<html><head><title>Spark Master at {url}</title></head><body>
<a style="text-decoration: none" href="/"><img src="/static/spark-logo.svg"/>
<span class="version" style="margin-right: 15px;">{version}</span></a>
<li><strong>URL:</strong> {url}</li></body></html>"""


@pytest.fixture
def master() -> Iterator[str]:
    """``spark://...`` of a master of Spark 4.0.1, which accepts connections and says nothing."""
    with _master("4.0.1") as url:
        yield url


@pytest.fixture
def cluster_page() -> Iterator[str]:
    """The same of the scripts' own version."""
    with _master("4.3.0") as url:
        yield url


@contextmanager
def _master(version: str) -> Iterator[str]:
    listener = socket.create_server((HOST, 0))
    url = f"spark://{HOST}:{listener.getsockname()[1]}"

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = PAGE.format(url=url, version=version).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((HOST, master_page.PORT), Page)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield url
    server.shutdown()
    server.server_close()
    listener.close()


def test_page_of_a_master_says_its_version(master: str) -> None:
    assert master_page.of_page('<span class="version me-3">4.3.0</span>') == "4.3.0"  # as newer ones write it
    assert master_page.version(master) == "4.0.1"
    assert master_page.version(f"spark://{HOST}:1") == ""  # the page is of another master
    assert master_page.version("spark://127.18.40.2:7077") == ""
    assert master_page.version(f"{master},{HOST}:7078") == ""


def test_version_of_a_cluster_is_that_of_its_master_or_of_its_head_node(master: str) -> None:
    assert spark_cluster.version(ComputeTarget(name="sp1", type="spark", address=master)) == "4.0.1"
    head = ComputeTarget(name="sp1", type="cluster", address="head.example.org")
    assert spark_cluster.version(head, "3.1.2") == "3.1.2"
    assert spark_cluster.version(ComputeTarget(name="local", type="local"), "3.1.2") == ""


def attach(desk: Desk, master: str) -> None:
    done = desk.holdfast("computetarget", "attach", "cluster", "--name", "sp1", "--address", master)
    assert done.code == 0, done


def test_script_for_a_master_of_another_version_is_refused_before_its_first_line(spark: SparkDesk, master: str) -> None:
    attach(spark.desk, master)
    done = spark.submit("print('first line')\nspark.range(3).count()", config="sp1")
    assert done.code == 65
    assert "first line" not in done.text
    expected = f"the master {master} has Spark 4.0.1, and the script has PySpark 4.3.0; install pyspark==4.0.1"
    assert spark.desk.record()["reason"].startswith(expected)


def test_script_that_shows_no_use_of_spark_is_refused_at_its_session(spark: SparkDesk, master: str) -> None:
    attach(spark.desk, master)
    (spark.desk.project / "data").write_text("spark.range(3).count()")
    done = spark.submit("print('first line')\nexec(open('data').read())", config="sp1")
    assert done.code == 1
    assert "first line" in done.text
    assert spark.desk.record()["reason"].startswith(f"the master {master} has Spark 4.0.1")


def test_executors_of_a_cluster_with_another_python_are_refused_before_the_first_line(
    spark: SparkDesk, cluster_page: str
) -> None:
    other = _other_python()
    attach(spark.desk, cluster_page)
    script = "print('first line')\nsc.parallelize([1]).count()"
    done = spark.submit(script, "-e", f"PYSPARK_PYTHON={other}", config="sp1")
    assert done.code == 65
    assert "first line" not in done.text
    assert "gives the executors Python 3." in spark.desk.record()["reason"]


def test_declared_pyspark_of_another_version_is_refused_with_its_line(desk: Desk, master: str) -> None:
    attach(desk, master)
    config = desk.project / "aml_config"
    (config / "sp1.runconfig").write_text("Target: sp1\nFramework: PySpark\nCondaDependenciesFile: env.yml\n")
    (desk.project / "env.yml").write_text("dependencies:\n- python=3.11\n- pip:\n  - pyspark==3.5.1\n")
    desk.script("spark.range(3).count()")
    done = desk.holdfast("submit", "-c", "sp1", "train.py")
    assert done.code == 65, done
    assert "the project declares PySpark 3.5.1, and the cluster of sp1 has Spark 4.0.1" in done.err
    assert "env.yml:4" in done.err
    assert not list((desk.home / "runs").glob("*"))


def test_executors_with_another_python_are_refused_before_the_jvm(spark: SparkDesk) -> None:
    other = _other_python()
    done = spark.submit("print('first line')\nsc.parallelize([1]).count()", "-e", f"PYSPARK_PYTHON={other}")
    assert done.code == 1
    assert "first line" in done.text
    reason = spark.desk.record()["reason"]
    assert reason.startswith("PYSPARK_PYTHON or spark.pyspark.python gives the executors Python 3.")
    assert f"and the script has Python {sys.version_info[0]}.{sys.version_info[1]};" in reason


def _other_python() -> str:
    other = next((path for path in map(shutil.which, OTHER_PYTHONS) if path), None)
    if other is None:
        pytest.skip("NOT TESTED: there is one version of Python only")
    return other


OTHER_PYTHONS = [
    str(path)
    for path in sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python3"))
    if f"/{sys.version_info[0]}.{sys.version_info[1]}." not in str(path)
]
