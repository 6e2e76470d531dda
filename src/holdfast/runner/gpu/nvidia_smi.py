"""Reads GPUs through ``nvidia-smi``, for machines where NVML cannot be loaded."""

import re
import subprocess

from .. import untrusted
from ..decoding import readable
from . import gpu_model, process_owner

MYPY = False
if MYPY:
    from typing import Any

_FIELDS = (
    "index name uuid pci.bus_id compute_cap clocks.max.memory clocks.max.sm memory.total memory.free memory.used "
    "utilization.gpu power.draw temperature.gpu ecc.mode.current mig.mode.current driver_version"
).split()
_APPS = ["gpu_uuid", "pid", "used_memory"]
_UNKNOWN_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field')
_MIB = 1024 * 1024


class Program:
    def __init__(self, path: "str") -> "None":
        self._path = path

    def look(self) -> "dict[str, Any]":
        output, rows = self._query("gpu", list(_FIELDS))
        if not rows:
            return gpu_model.nothing(gpu_model.UNMEASURED, "nvidia-smi: %s" % (output or "nothing"))
        cuda = re.search(r"CUDA (?:\w+ )?Version *: *(\d+\.\d+)", self._output_of([]))
        holders_by_card = self._holders()
        cards = [_card(row, holders_by_card.get(row["uuid"], [])) for row in rows]
        result = gpu_model.nothing(gpu_model.MEASURED, "")
        driver = rows[0].get("driver_version", "")
        return dict(result, source="nvidia-smi", driver=driver, cuda=cuda.group(1) if cuda else "", gpus=cards)

    def tick(self, index: "int", _thorough: "bool" = True) -> "dict[str, Any]":
        """As in ``nvml``; it is slow, so frequent callers wait longer between two calls."""
        card = next((card for card in self.look()["gpus"] if card["index"] == index), None)
        if card is None:
            raise gpu_model.Trouble("nvidia-smi no longer lists GPU %d" % index)
        seen = {"busy": card["busy_percent"], "memory": card["memory_used"], "watts": card["power_watts"]}
        pids = {process["pid"]: process["memory"] for process in card["processes"]}
        return dict(seen, celsius=card["celsius"], throttle=0, pids=pids)

    def counters(self, _index: "int") -> "dict[str, Any]":
        return {}

    def xids(self) -> "list[tuple[str, int]]":
        return []

    def _holders(self) -> "dict[str, list[dict[str, Any]]]":
        holders = {}  # type: dict[str, list[dict[str, Any]]]
        for row in self._query("compute-apps", list(_APPS))[1]:
            memory = _number(row.get("used_memory"))
            holder = process_owner.holder(int(row["pid"]), None if memory is None else int(memory) * _MIB)
            holders.setdefault(row["gpu_uuid"], []).append(holder)
        return holders

    def _query(self, what: "str", fields: "list[str]") -> "tuple[str, list[dict[str, str]]]":
        """What it said, and rows of field -> value. Older ones know fewer fields, and name the first that they lack."""
        while True:
            output = self._output_of(["--query-%s=%s" % (what, ",".join(fields)), "--format=csv,noheader,nounits"])
            unknown = _UNKNOWN_FIELD.search(output)
            if unknown is None or unknown.group(1) not in fields:
                break
            fields.remove(unknown.group(1))
        rows = [[word.strip() for word in line.split(",")] for line in output.splitlines()]
        return output, [_named(fields, row) for row in rows if len(row) == len(fields)]

    def _output_of(self, arguments: "list[str]") -> "str":
        """Its output: failures are printed there as well. No time limit here; the caller has one."""
        nothing, pipe, same = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
        done = subprocess.run([self._path, *arguments], check=False, stdin=nothing, stdout=pipe, stderr=same)
        return readable(done.stdout).strip()


def _named(fields: "list[str]", row: "list[str]") -> "dict[str, str]":
    return {field: row[at] for at, field in enumerate(fields)}


def _card(row: "dict[str, str]", processes: "list[dict[str, Any]]") -> "dict[str, Any]":
    major, _, minor = row.get("compute_cap", "").partition(".")
    memory = {
        "memory_" + name: int(value) * _MIB
        for name in ("total", "free", "used")
        for value in [_number(row["memory." + name])]
        if value is not None
    }
    return gpu_model.card(
        index=int(row["index"]),
        name=row["name"],
        uuid=row["uuid"],
        pci=_pci(row["pci.bus_id"]),
        major=untrusted.whole_number(major),
        minor=untrusted.whole_number(minor),
        memory_clock_mhz=_number(row["clocks.max.memory"]),
        core_clock_mhz=_number(row["clocks.max.sm"]),
        busy_percent=_number(row["utilization.gpu"]),
        power_watts=_number(row["power.draw"]),
        celsius=_number(row["temperature.gpu"]),
        ecc=_switch(row.get("ecc.mode.current")),
        mig=_switch(row.get("mig.mode.current")),
        processes=processes,
        **memory,
    )


def _pci(word: "str") -> "str | None":
    parts = re.match(r"([0-9A-Fa-f]+):([0-9A-Fa-f]+):([0-9A-Fa-f]+)\.", word)
    return gpu_model.pci(*(int(part, 16) for part in parts.groups())) if parts else None


def _number(word: "str | None") -> "float | None":
    """None where it prints [N/A] or [Not Supported]."""
    try:
        number = float(word or "")
    except ValueError:
        return None
    return int(number) if number == int(number) else number


def _switch(word: "str | None") -> "bool | None":
    return {"Enabled": True, "Disabled": False}.get(word or "")
