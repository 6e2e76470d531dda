"""What other users of a machine can see of a run with Spark: ports, pages, command lines and the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from spark.conftest import SparkDesk

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
SECRET = "s3cret-value-of-a-test"
SCRIPT = """
import os
from urllib.request import urlopen

sc.parallelize(range(4), 2).map(lambda x: (x % 2, x)).groupByKey().count()
secret = os.environ["TOKEN"]
print("driver", sc._jvm.System.getenv("TOKEN") == secret)
api = "%s/api/v1/applications/%s/environment" % (sc.uiWebUrl, sc.applicationId)
pages = [urlopen(address).read().decode() for address in (sc.uiWebUrl + "/environment/", api)]
print("pages", all("spark.eventLog.enabled" in page for page in pages), any(secret in page for page in pages))

family = {os.getpid()}
for _ in range(4):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open("/proc/%s/stat" % name).read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) in family:
            family.add(int(name))
lines = [open("/proc/%d/cmdline" % pid, "rb").read() for pid in family]
print("commands", len(lines) > 2, any(secret.encode() in line for line in lines))
rows = [row.split() for name in ("tcp", "tcp6") for row in open("/proc/net/" + name).readlines()[1:]]
listening = {"socket:[%s]" % row[9]: row[1].split(":")[0] for row in rows if row[3] == "0A"}
links = [os.readlink("/proc/%d/fd/%s" % (pid, name)) for pid in family for name in os.listdir("/proc/%d/fd" % pid)
         if os.path.lexists("/proc/%d/fd/%s" % (pid, name))]
print("listens", sorted({listening[link] for link in links if link in listening}))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_secret_and_ports_of_a_run_are_its_own(spark: SparkDesk) -> None:
    (spark.config / "spark.yml").write_text(
        "configuration:\n  spark.eventLog.enabled: True\n  spark.eventLog.compress: false\n"
    )
    spark.desk.env["TOKEN"] = SECRET
    done = spark.submit(SCRIPT, "--secret", "TOKEN")
    assert done.code == 0, done
    assert "driver True\npages True False\ncommands True False\n" in done.text
    listens = done.text.partition("listens ")[2].splitlines()[0]
    assert set(listens.strip("[]").replace("'", "").split(", ")) <= LOOPBACK
    attempt = spark.desk.attempt()
    logs = [path for path in (attempt / "outputs" / "spark-events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerEnvironmentUpdate" in path.read_bytes() for path in logs)
    assert [path for path in attempt.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
