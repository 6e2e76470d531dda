"""Types for GPUs and their state, and the families of cards that are known by name. Pure."""

MYPY = False
if MYPY:
    from typing import Any

MEASURED, NONE, UNMEASURED = "measured", "none", "unmeasured"
_GIB = 1024.0**3
_SAMPLE_S = 2.0  # a longer time between two samples of the driver is a gap
_CARD = (
    "index name uuid pci major minor memory_clock_mhz core_clock_mhz memory_total memory_free memory_used "
    "busy_percent power_watts celsius ecc mig processes minor_number"
).split()


class Trouble(Exception):
    """The source answered but could not list GPUs; the text says why."""


def nothing(state: "str", trouble: "str") -> "dict[str, Any]":
    """An answer without GPUs: there are none, or they could not be read; ``trouble`` says why."""
    return {"state": state, "source": "", "driver": "", "cuda": "", "gpus": [], "trouble": trouble}


def card(**known: "object") -> "dict[str, Any]":
    """One GPU; what is not given is not known, which is None and never zero."""
    return dict(dict.fromkeys(_CARD), trouble="", **known)


def five_lines(gpu: "dict[str, Any]") -> "list[str]":
    """A card as the original's guide shows it, in the very form that TensorFlow printed."""
    clock = gpu["memory_clock_mhz"]
    return [
        "name: %s" % _or_unknown(gpu["name"]),
        "major: %s minor: %s memoryClockRate (GHz) %s"
        % (
            _or_unknown(gpu["major"]),
            _or_unknown(gpu["minor"]),
            "unknown" if clock is None else "%.4f" % (clock / 1000.0),
        ),
        "pciBusID %s" % _or_unknown(gpu["pci"]),
        "Total memory: %s" % _gib(gpu["memory_total"]),
        "Free memory: %s" % _gib(gpu["memory_free"]),
    ]


def pci(domain: "int", bus: "int", device: "int") -> "str":
    """Four digits of domain, as the guide has it; more where a hypervisor counts higher."""
    return "%04x:%02x:%02x.0" % (domain, bus, device)


def _or_unknown(value: "object") -> "object":
    return "unknown" if value is None else value


def _gib(count: "int | None") -> "str":
    return "unknown" if count is None else "%.2fGiB" % (count / _GIB)


def add_samples(before: "int", samples: "list[tuple[int, int]]") -> "tuple[float, float]":
    """Seconds covered and seconds busy of samples (microseconds, percent); each is for the time since the last."""
    covered = busy = 0.0
    for stamp, percent in samples:
        seconds = (stamp - before) / 1e6
        if 0 < seconds <= _SAMPLE_S:
            covered += seconds
            busy += seconds * percent / 100.0
        before = stamp
    return covered, busy
