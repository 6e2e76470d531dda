"""Which repositories of packages can be reached: Ivy itself would wait for each of them, once per file."""

import os
import socket
import threading
import time
from urllib.parse import urlsplit

LIMIT_S = 3.0  # for all of them together
_PORTS = {"http": 80, "https": 443}
_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def reachable(roots: "list[str]") -> "list[str]":
    """Those whose host accepts a connection; all where Java uses a proxy. Folders and unknown schemes are kept."""
    if any("proxy" in text.lower() for name, text in os.environ.items() if name in _JAVA_OPTIONS):
        return roots
    answered = {}  # type: dict[str, bool]
    threads = [threading.Thread(target=_look, args=(root, answered), daemon=True) for root in roots]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + LIMIT_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))  # a name server may take longer than a connection may
    return [root for root in roots if answered.get(root)]


def _look(root: "str", answered: "dict[str, bool]") -> "None":
    try:
        parts = urlsplit(root)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        if port and parts.hostname:
            socket.create_connection((parts.hostname, port), timeout=LIMIT_S).close()
        answered[root] = True
    except (OSError, ValueError):
        answered[root] = False
