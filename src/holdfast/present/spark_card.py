"""The Spark part of a run's card: the application, its versions, and what it did."""

from __future__ import annotations

from holdfast.present.terminal import human_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

_BYTES = (
    ("read", "input_bytes"),
    ("shuffled", "shuffle_write_bytes"),
    ("spilled", "spill_bytes"),
    ("of environment sent to workers", "environment_bytes"),
)


def lines(record: Json) -> list[str]:
    """Nothing of a run that started no session."""
    spark = record.get("spark")
    if not isinstance(spark, dict):
        return []
    versions = [f"{name} {spark[key]}" for name, key in _VERSIONS if spark.get(key)]
    name = f"{spark.get('application') or spark.get('session')} on {spark.get('master')}"
    result = [", ".join([name, *versions])]
    if record.get("status") == "Running" and spark.get("ui"):
        result.append(f"its UI, while it runs: {spark['ui']}, on the machine of the driver")
    receipt = spark.get("receipt")
    return [*result, *_use(receipt)] if isinstance(receipt, dict) else result


_VERSIONS = (("Spark", "spark"), ("Scala", "scala"), ("Java", "java"), ("Python", "python"))


def _use(receipt: Json) -> list[str]:
    """``used: 4 tasks in 2 stages on 2 executors, 879 B shuffled, 2 % of the time in garbage collection``"""
    tasks = f"{_count(receipt, 'tasks', 'task')}{_failed(receipt, 'failed_tasks')}"
    stages = f"{_count(receipt, 'stages', 'stage')}{_failed(receipt, 'failed_stages')}"
    parts = [f"{tasks} in {stages} on {_count(receipt, 'executors', 'executor')}"]
    parts += [f"{human_bytes(size)} {name}" for name, key in _BYTES if (size := _number(receipt, key))]
    share = receipt.get("gc_share")
    if isinstance(share, float) and share >= 0.005:
        parts.append(f"{share:.0%} of the time in garbage collection")
    lost = receipt.get("lost")
    rows = [row for row in lost if isinstance(row, dict)] if isinstance(lost, list) else []
    losses = [f"executor {row.get('id')} was lost: {row.get('reason')}" for row in rows[:5]]
    return [f"{receipt.get('verdict')}: {', '.join(parts)}", *losses]


def _count(receipt: Json, key: str, noun: str) -> str:
    number = _number(receipt, key)
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _failed(receipt: Json, key: str) -> str:
    number = _number(receipt, key)
    return f" ({number} failed)" if number else ""


def _number(receipt: Json, key: str) -> int:
    value = receipt.get(key)
    return value if isinstance(value, int) else 0
