"""Spark masters: ``spark://HOST:7077``, ``sc://HOST:15002`` of a Connect server, ``local[4]`` without a cluster."""

from __future__ import annotations

import re

_HOST = r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])"
_MASTER = re.compile(rf"spark://{_HOST}:\d{{1,5}}(?:,{_HOST}:\d{{1,5}})*\Z", re.ASCII)
_CONNECT = re.compile(rf"sc://{_HOST}(?::\d{{1,5}})?(?:/(?:;[^\s]*)?)?\Z", re.ASCII)
# As Spark itself reads them: threads, and how often a task may fail; workers, cores and memory of each.
_LOCAL = re.compile(
    r"local(?:\[(?:[1-9]\d{0,4}|\*)(?:\s*,\s*[1-9]\d{0,4})?\]|-cluster\[\s*\d{1,5}\s*,\s*\d{1,5}\s*,\s*\d{1,9}\s*\])?\Z",
    re.ASCII,
)
_PORT = re.compile(r":(\d+)(?=[,/]|\Z)")


def complaint(key: str, text: str) -> tuple[str, str]:
    """What is wrong with an address, and what to write; two empty texts where nothing is."""
    if not (_MASTER.match(text) or _CONNECT.match(text)) or not _has_real_ports(text):
        hint = f"write {key}: spark://HOST:7077, or sc://HOST:15002 for Spark Connect"
        return f"{key} is {text!r}, which is no Spark master", hint
    if text.startswith("sc://") and ";token=" in text:
        hint = "delete it; SPARK_CONNECT_AUTHENTICATE_TOKEN is read by Spark: --secret SPARK_CONNECT_AUTHENTICATE_TOKEN"
        return f"{key} contains a token", hint
    return "", ""


def is_local(text: str) -> bool:
    """Whether it is a well-formed master without a cluster: ``local``, ``local[4]``, ``local[*]``."""
    return _LOCAL.match(text) is not None


def _has_real_ports(text: str) -> bool:
    endpoint = text.partition("://")[2].partition("/")[0]
    return all(0 < int(digits) < 65536 for digits in _PORT.findall(endpoint))
