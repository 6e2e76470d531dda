"""A script on the head node of a Spark cluster: Python first, or YARN's own driver where the target says so."""

from __future__ import annotations

from holdfast.runtimes.python import PythonRuntime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.ports import RuntimeParts


class SparkRuntime(PythonRuntime):
    def __init__(self, parts: RuntimeParts) -> None:
        super().__init__(parts)
        self._spark = parts.spark or {}

    def argv(self, script: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Unless it is in client mode, a driver is started by YARN, on one of its nodes."""
        spark = self._spark
        if spark.get("deploy_mode") in (None, "client"):
            return super().argv(script, arguments)
        conf = spark.get("conf")
        pairs = sorted(conf.items()) if isinstance(conf, dict) else []
        program = str(spark.get("program") or "spark-submit")
        options = [word for name, value in pairs for word in ("--conf", f"{name}={value}")]
        return (program, "--master", "yarn", "--deploy-mode", "cluster", *options, *super().argv(script, arguments)[1:])
