"""The version of a standalone cluster's Spark, by the web page of its master. A submit reads it too."""

import http.client
import re

PORT = 8080  # Spark's own default; the page of a master says of which one it is
_ANSWER_S = 2.0
_LARGEST = 1 << 20
_MASTER = re.compile(r"spark://(\[[^\]]+\]|[^\],:/]+):(\d+)\Z", re.ASCII)
_VERSION = re.compile(r'class="version\b[^>]*>\s*(\d+(?:\.\d+)+[\w.-]*)')


def version(master: "str") -> "str":
    """``4.3.0``; empty where there are several masters, or where the page does not answer or is of another one."""
    match = _MASTER.match(master)
    if match is None:
        return ""
    connection = http.client.HTTPConnection(match.group(1).strip("[]"), PORT, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        text = answer.read(_LARGEST).decode("utf-8", "replace") if answer.status == 200 else ""
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    finally:
        connection.close()
    is_its_own = re.search(r"spark://[^\s<\"]+:%s\b" % match.group(2), text)
    return of_page(text) if is_its_own is not None else ""


def of_page(text: "str") -> "str":
    match = _VERSION.search(text)
    return match.group(1) if match is not None else ""


def is_other(mine: "str", theirs: "str") -> "bool":
    """Whether driver and master do not understand each other: they need the same major and minor version."""
    return bool(mine and theirs) and mine.split(".")[:2] != theirs.split(".")[:2]
