"""What Spark costs: a script without it, by framework, and a shuffle job against bare ``spark-submit`` on one master.

Every round runs all candidates in turn; medians are shown. ``python bench/spark_jobs.py plain receipt job environment
connect`` is all of it, and each word stands for one part.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from run import BIN, environment, watched  # noqa: E402

import libraries  # noqa: E402
from spark.connect_server import ConnectServer  # noqa: E402
from spark.standalone import Standalone  # noqa: E402

PLAIN_ROUNDS, SUBMIT_ROUNDS, JOB_ROUNDS, RECEIPT_ROUNDS, CONNECT_ROUNDS = 25, 5, 3, 7, 11
JOB = """
print("hello", flush=True)
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
frame = spark.range(2_000_000).selectExpr("id % 1000 AS k", "id AS v").groupBy("k").sum("v")
assert frame.count() == 1000
"""
SHUFFLE = """
rows = sc.parallelize(range(1000), 4).map(lambda x: (x % 7, x)).reduceByKey(lambda a, b: a + b).collect()
assert len(rows) == 7
print("hello", flush=True)
"""
CONNECT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.range(1000).selectExpr("id % 7 AS k").groupBy("k").count().count() == 7
print("hello", flush=True)
"""
# The same job with a receipt and without one; it says itself how long each part of the record took.
RECEIPT = """
import sys, time
import _holdfast_spark.record as record
took = []
def timed(work):
    def measured(context):
        began = time.perf_counter()
        work(context)
        took.append(time.perf_counter() - began)
    return measured
def nothing(context):
    pass
with_receipt = sys.argv[1] == "with"
record.begun, record.used = (timed(record.begun), timed(record.used)) if with_receipt else (nothing, nothing)
from pyspark.sql import SparkSession
began = time.perf_counter()
spark = SparkSession.builder.getOrCreate()
for _ in range(10):
    frame = spark.range(5_000_000).selectExpr("id % 1000 AS k", "id AS v").groupBy("k").sum("v")
    assert frame.count() == 1000
spark.stop()
print("took", time.perf_counter() - began, sum(took))
"""
CONF = {"spark.executor.memory": "512m", "spark.driver.memory": "512m"}


def main() -> int:
    python = libraries.interpreter(ROOT, libraries.SPARK)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        place = Path(scratch)
        project = place / "project"
        (project / "aml_config").mkdir(parents=True)
        (project / "main.py").write_text("print('hello')\n")
        (project / "job.py").write_text(JOB)
        (project / "aml_config" / "python.runconfig").write_text("Target: local\nFramework: Python\n")
        (project / "aml_config" / "none.runconfig").write_text("Target: local\n")
        rows = "".join(f"  {name}: {value}\n" for name, value in CONF.items())
        (project / "aml_config" / "spark_dependencies.yml").write_text(f"configuration:\n{rows}")
        (project / "receipt.py").write_text(RECEIPT)
        (project / "connect.py").write_text(CONNECT)
        parts = {"plain": plain, "receipt": receipt, "job": job, "environment": environment_of_workers}
        parts["connect"] = connect
        for name in sys.argv[1:] or parts:
            parts[name](project, place, python)
    return 0


def plain(project: Path, place: Path, python: Path) -> None:
    candidates = {
        "Framework: Python": _submit("python", python, "main.py"),
        "no Framework line": _submit("none", python, "main.py"),
    }
    env = _environment(place, python)
    whole = _measured(candidates, project, env, PLAIN_ROUNDS)[1]
    base, ours = (statistics.median(values) for values in whole.values())
    print(f"a script without Spark: Framework: Python {base * 1e3:.1f} ms, without the line {ours * 1e3:.1f} ms")
    print(f"  {(ours - base) * 1e3:+.1f} ms (goal: at most +20)")
    if sys.argv[1:] == ["plain"]:
        return
    bare: list[str | Path] = [python.with_name("spark-submit"), "main.py"]
    times = _measured({"bare": bare, "ours": candidates["no Framework line"]}, project, env, SUBMIT_ROUNDS)[1]
    ratio = statistics.median(times["ours"]) / statistics.median(times["bare"])
    print(f"  {ratio:.2f} x spark-submit main.py (goal: at most 0.2)")


def receipt(project: Path, place: Path, python: Path) -> None:
    """A job on this machine with the receipt and without it: the difference, and what the receipt's own calls took."""
    env, calls = _environment(place, python), list[float]()
    times: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(RECEIPT_ROUNDS + 1):
        for name, values in times.items():
            argv = [*_submit("none", python, "receipt.py"), name]
            done = subprocess.run(argv, cwd=project, env=env, check=True, capture_output=True, text=True)
            _, whole, own = next(line for line in done.stdout.splitlines() if line.startswith("took ")).split()
            if number:  # the first round fills caches
                values.append(float(whole))
                calls += [float(own)] if name == "with" else []
    ours, bare, own_s = (statistics.median(values) for values in (times["with"], times["without"], calls))
    print(f"a job with the receipt: {ours:.2f} s, without it {bare:.2f} s, {ours / bare - 1:+.1%} (goal: at most 2 %)")
    print(f"  calls for the receipt: {own_s * 1e3:.0f} ms, {own_s / bare:.1%} of the job")


def job(project: Path, place: Path, python: Path) -> None:
    """The same job on the same master."""
    folder = place / "standalone"
    folder.mkdir()
    cluster = Standalone(python, folder)
    try:
        env = _environment(place, python)
        _attach("sp1", cluster.url, project, env)
        options = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
        bare: list[str | Path] = [python.with_name("spark-submit"), "--master", cluster.url, *options, "job.py"]
        first, whole = _measured({"bare": bare, "ours": _submit("sp1", python, "job.py")}, project, env, JOB_ROUNDS)
    finally:
        cluster.stop()
    for name, times, goal in (("first line", first, "earlier"), ("end", whole, "at most 1.05")):
        ours, theirs = statistics.median(times["ours"]), statistics.median(times["bare"])
        print(f"a shuffle job, {name}: {ours:.2f} s, spark-submit {theirs:.2f} s, {ours / theirs:.2f} x (goal: {goal})")


class Elsewhere(Standalone):
    """Its workers are as on other machines: they do not have the Python of the run."""

    def __init__(self, python: Path, folder: Path, hidden: Path) -> None:
        hide = f'mount -t tmpfs none {hidden} && exec "$@"'
        self.before = ("unshare", "--map-root-user", "--mount", "sh", "-c", hide, "sh")
        super().__init__(python, folder)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "HOME": str(self.folder)}


def environment_of_workers(project: Path, place: Path, python: Path) -> None:
    """Bytes of environment that the first and the second submit send to workers without the Python of the run."""
    folder, own = place / "elsewhere", place / "own"
    folder.mkdir()
    subprocess.run([python, "-m", "venv", "--without-pip", own], check=True)
    packages = next(python.parents[1].glob("lib/python3*/site-packages"))
    (next(own.glob("lib/python3*/site-packages")) / "spark.pth").write_text(f"{packages}\n")
    (project / "shuffle.py").write_text(SHUFFLE)
    cluster = Elsewhere(python, folder, own)
    try:
        env = _environment(place, python)
        _attach("sp2", cluster.url, project, env)
        for name in ("first", "second"):
            done = watched(_submit("sp2", own / "bin" / "python", "shuffle.py"), project, env)
            shown = subprocess.run([BIN / "holdfast", "history", "last"], cwd=project, env=env, check=True, stdout=-1)
            sent = json.loads(shown.stdout)["spark"]["receipt"]["environment_bytes"]
            print(f"the {name} submit to workers without its Python: {sent} bytes of environment, {done[1]:.1f} s")
    finally:
        cluster.stop()


def connect(project: Path, place: Path, python: Path) -> None:
    """A script on a Connect server against Python alone, which finds the server by ``SPARK_REMOTE``."""
    folder = place / "connect"
    folder.mkdir()
    server = ConnectServer(python, folder)
    try:
        env = {**_environment(place, python), "SPARK_REMOTE": server.url}
        _attach("sc1", server.url, project, env)
        candidates: dict[str, list[str | Path]] = {"bare": [python, "connect.py"]}
        first, whole = _measured(
            {**candidates, "ours": _submit("sc1", python, "connect.py")}, project, env, CONNECT_ROUNDS
        )
    finally:
        server.kill()
    for name, times in (("first line", first), ("end", whole)):
        ours, bare = statistics.median(times["ours"]), statistics.median(times["bare"])
        print(f"a Connect script, {name}: {ours:.3f} s, python alone {bare:.3f} s, {(ours - bare) * 1e3:+.0f} ms")
    print("  (goal: at most +150)")


def _attach(name: str, url: str, project: Path, env: dict[str, str]) -> None:
    words = ["computetarget", "attach", "cluster", "--name", name, "--address", url]
    subprocess.run([BIN / "holdfast", *words], cwd=project, env=env, check=True, capture_output=True)


def _environment(place: Path, python: Path) -> dict[str, str]:
    """``spark-submit`` looks for Spark beside the ``python3`` of the PATH."""
    env = environment(place)
    return {**env, "PATH": f"{python.parent}:{env['PATH']}"}


def _submit(config: str, python: Path, script: str) -> list[str | Path]:
    return [BIN / "holdfast", "submit", "-c", config, "--python", python, script]


def _measured(
    candidates: dict[str, list[str | Path]], project: Path, env: dict[str, str], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    first: dict[str, list[float]] = {name: [] for name in candidates}
    whole: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, argv in candidates.items():
            seen, ended = watched(argv, project, env)
            if number:  # the first round fills caches
                first[name].append(seen)
                whole[name].append(ended)
    return first, whole


if __name__ == "__main__":
    sys.exit(main())
