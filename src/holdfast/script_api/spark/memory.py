"""Memory of this machine or container, and sizes as Java writes them. A submit reads it too, so it imports little."""

import os
import sys

_UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}
LEAST = 450 << 20  # below this Spark refuses to start
_DIGITS, _LONGEST = set("0123456789"), 15  # int() takes other digits too, and refuses very many


def size(text: "str") -> "int":
    """Bytes of ``2g`` or ``512m``, as Java has them; 0 for anything else. Without a unit they are MiB."""
    word = text.strip().lower().rstrip("b")
    digits, unit = (word[:-1], word[-1]) if word[-1:] in _UNITS and word else (word, "m")
    is_number = 0 < len(digits) <= _LONGEST and _DIGITS.issuperset(digits)
    return int(digits) << _UNITS[unit] if is_number else 0


def of_java(text: "str") -> "str":
    """The same size as the JVM reads it, which knows no ``2gb`` and takes a number without a unit for bytes."""
    word = text.strip().lower()
    return text.strip() if word[-1:] in _UNITS and word[:-1].isdigit() else "%dk" % (size(text) >> 10)


def limit() -> "int":
    """Bytes that this process may use; 0 where that is unknown."""
    if sys.platform == "win32":
        return 0
    limits = []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as source:
                limits.append(int(source.read()))
        except (OSError, ValueError):
            continue
    try:
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (OSError, ValueError):
        pass
    return min(limits) if limits else 0


def complaint(text: "str") -> "str":
    """What is wrong with a size of the driver's heap here; empty where it fits."""
    most = limit()
    if not most or size(text) <= most:
        return ""
    message = "spark.driver.memory is %s, and this machine or container has %d MB; write a smaller value"
    return message % (text, most >> 20)
