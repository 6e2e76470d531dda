"""A cluster of several machines, with the driver on its head node: the worker has neither the run's Python nor any."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from lab.pythons import python_of
from spark import quick_java
from spark.conftest import START_S
from ssh.conftest import Laptop
from sshlab import PYTHONS, Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sshlab import Host, User

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
THERE = "/opt/pyspark"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
HOME = f"{THERE}/venv/lib/{VERSION}/site-packages"
PORT = 7077
SCRIPT = """
import os, platform, sys, time, helper
def look(number):
    import tiny
    return platform.node(), sys.prefix, tiny.answer, helper.double(number)
print(sorted(set(sc.parallelize([21, 21], 2).map(look).collect())), platform.node(), sys.prefix)
rows = sc.parallelize(range(1000), 2).map(lambda x: (x % 7, helper.double(x))).reduceByKey(lambda a, b: a + b).collect()
print(sorted(rows)[0], sc.master, flush=True)
folder = "/proc/%d/" % sc._gateway.proc.pid
sockets = [row.split() for name in ("net/tcp", "net/tcp6") for row in open(folder + name).readlines()]
own = {os.readlink(folder + "fd/" + name) for name in os.listdir(folder + "fd")}
listening = [row[1].split(":") for row in sockets if row[3] == "0A" and "socket:[%s]" % row[9] in own]
page = "%04X" % int(sc.uiWebUrl.rpartition(":")[2])
print("page", sc.uiWebUrl.rpartition(":")[0], {address[-8:] for address, port in listening if port == page})
print("others", len({address[-8:] for address, _ in listening} - {"0100007F"}))
deadline = time.time() + 300
while "WAIT" in os.environ and not os.path.exists(os.environ["WAIT"]):
    assert time.time() < deadline
    time.sleep(0.05)
print("last line", sc.parallelize([1, 2], 2).sum())
"""


LARGE = """
frame = spark.read.schema("k INT, v LONG, padding STRING").csv("/data/large.csv")
print([tuple(row) for row in frame.groupBy("k").sum("v").orderBy("k").collect()])
print("heap", sc._jvm.Runtime.getRuntime().maxMemory())
"""
ROWS, BLOCKS = 1000, 540  # of 1000 bytes


def start(host: Host, user: User, name: str, *words: str) -> subprocess.Popen[bytes]:
    """A daemon of Spark, as a class of the package pyspark; it ends with its machine."""
    uid = str(user.uid)
    switch = [*host.held.enter("--all"), "--", "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "env", "-i"]
    variables = {
        "HOME": user.home,
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": quick_java.THERE,
        "SPARK_HOME": f"{HOME}/pyspark",
        "SPARK_LOCAL_IP": host.address,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": f"{user.home}/work",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
    }
    env = [f"{key}={value}" for key, value in variables.items()]
    argv = [*switch, "-C", user.home, *env, f"{HOME}/pyspark/bin/spark-class", f"org.apache.spark.deploy.{name}"]
    with user.path("daemon.log").open("ab") as log:
        return subprocess.Popen([*argv, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def machines(pyspark: Path, data: Path) -> Iterator[Lab]:
    """A head node with a master; a worker without any Python. Both have Java, Spark, and a folder that they share."""
    try:
        shares = {THERE: pyspark.parents[2], quick_java.THERE: quick_java.home(), "/data": data}
        with Lab(hosts=("head", "work1"), shares=shares) as lab:
            head, worker = lab["head"], lab["work1"]
            quick_java.put_on_path(head)
            daemons = [start(head, head.user("sparkm"), "master.Master", "--host", head.address, "--port", str(PORT))]
            worker.remove_programs("python*")
            if PYTHONS.is_dir():
                worker.run("umount", "--lazy", str(PYTHONS))
            account = worker.user("sparkw")
            words = ("--host", worker.address, "-c", "2", "-m", "1g", master_url(lab))
            daemons.append(start(worker, account, "worker.Worker", *words))
            log = head.users["sparkm"].path("daemon.log")
            eventually(lambda: "Registering worker" in log.read_text(), 300)
            yield lab
        for daemon in daemons:
            daemon.wait(60)
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def master_url(lab: Lab) -> str:
    return f"spark://{lab['head'].address}:{PORT}"


@pytest.fixture
def ada(machines: Lab) -> User:
    """Her Python is in her home on the head node; it has Spark, and a module of its own."""
    user = machines["head"].user("ada")
    user.run(python_of(VERSION[6:]), "-m", "venv", "--without-pip", "env")
    packages = f"env/lib/{VERSION}/site-packages"
    user.write(f"{packages}/pyspark.pth", f"{HOME}\n")
    user.write(f"{packages}/tiny.py", "answer = 'from the environment'\n")
    return user


@pytest.fixture
def laptop(machines: Lab, ada: User, tmp_path: Path) -> Iterator[Laptop]:
    (tmp_path / "desk").mkdir()
    client = machines.client(tmp_path / "home")
    laptop = Laptop(tmp_path / "desk", client)
    head = machines["head"]
    client.trust(head)
    ada.authorize(client.key())
    words = ("--name", "sp1", "--address", head.hostname, "--username", "ada")
    done = laptop.holdfast("computetarget", "attach", "cluster", *words)
    assert done.code == 0, done
    config = laptop.project / "aml_config"
    with (config / "sp1.compute").open("a") as file:
        file.write(f"sparkMaster: {master_url(machines)}\n")
    laptop.trust("sp1")
    (config / "spark_dependencies.yml").write_text(
        "configuration:\n  spark.executor.memory: 512m\n  spark.driver.memory: 512m\n"
    )
    laptop.script("def double(x):\n    return 2 * x\n", "helper.py")
    laptop.script(SCRIPT, "etl.py")
    yield laptop
    client.close()


def test_driver_on_the_head_node_brings_its_python_to_a_worker_once(laptop: Laptop, ada: User, machines: Lab) -> None:
    words = ("submit", "-c", "sp1", "--python", "/home/ada/env/bin/python")
    done = laptop.holdfast(*words, "etl.py", limit=START_S)
    assert done.code == 0, done
    kept = list(machines["work1"].users["sparkw"].path(".cache/holdfast/spark-environments").iterdir())
    assert len(kept) == 1
    seen = f"('work1', '/home/sparkw/.cache/holdfast/spark-environments/{kept[0].name}', 'from the environment', 42)"
    assert f"[{seen}] head /home/ada/env" in done.text
    assert f"(0, 142142) {master_url(machines)}" in done.text
    assert "page http://127.0.0.1 {'0100007F'}\nothers 1\n" in done.text  # the driver listens where workers reach it
    record = laptop.record()["spark"]
    assert (record["master"], record["receipt"]["verdict"]) == (master_url(machines), "used")
    assert record["receipt"]["environment_bytes"] > 1 << 20

    with laptop.start(*words, "-e", "WAIT=/home/ada/go", "etl.py") as client:
        assert client.stdout is not None
        while line := client.stdout.readline():
            if b"(0, 142142)" in line:
                break
        client.send_signal(signal.SIGKILL)
    ada.write("go", "")
    record = laptop.wait_for_end(limit=START_S)
    assert record["status"] == "Completed"
    assert record["spark"]["receipt"]["environment_bytes"] == 0
    assert "last line 3" in laptop.holdfast("logs", "-r", "last").text


def test_csv_larger_than_the_drivers_memory_is_aggregated_on_the_cluster(laptop: Laptop, data: Path) -> None:
    rows = [f"{number % 3},{number},".encode() for number in range(ROWS)]
    block = b"".join(row + b"x" * (999 - len(row)) + b"\n" for row in rows)
    path = data / "large.csv"
    with path.open("wb") as file:
        for _ in range(BLOCKS):
            file.write(block)
    data.chmod(0o755)
    laptop.script(LARGE, "large.py")
    done = laptop.holdfast("submit", "-c", "sp1", "--python", "/home/ada/env/bin/python", "large.py", limit=START_S)
    size = path.stat().st_size
    path.unlink()
    assert done.code == 0, done
    assert str([(key, BLOCKS * sum(range(key, ROWS, 3))) for key in range(3)]) in done.text
    assert int(done.text.partition("heap ")[2].split()[0]) < size
    receipt = laptop.record()["spark"]["receipt"]
    assert receipt["input_bytes"] >= size
    assert (receipt["verdict"], receipt["failed_tasks"]) == ("used", 0)


def test_master_of_another_version_is_refused_by_its_own_page(laptop: Laptop, ada: User, machines: Lab) -> None:
    ada.write("other/jars/spark-core_2.13-4.0.1.jar", "")
    words = ("--python", "/home/ada/env/bin/python", "-e", "SPARK_HOME=/home/ada/other", "etl.py")
    done = laptop.holdfast("submit", "-c", "sp1", *words)
    assert done.code == 65, "before the script's first line"
    expected = f"the master {master_url(machines)} has Spark 4.3.0, and the script has PySpark 4.0.1"
    assert laptop.record()["reason"].startswith(expected)
