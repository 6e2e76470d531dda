"""Commands of ours that take long, run for a page: what they print, line by line, and how they ended.

They ask nothing, so they confirm nothing. One whose page is closed goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from holdfast.present.terminal import show
from holdfast.runner.decoding import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.home import Home

_LONGEST = 2000


def ticks(home: Home, folder: str, *arguments: str) -> Iterator[str]:
    """Lines of JSON like the steps of a test; the last one says whether the command succeeded."""
    process = subprocess.Popen(
        (sys.executable, "-m", "holdfast", *arguments),
        cwd=folder,
        env={**os.environ, "HOLDFAST_HOME": home.path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            text = readable(line).rstrip()
            if text:
                yield _tick("skipped", "", show(text[:_LONGEST].replace("\t", "  ")))
        code = process.wait()
        yield _tick("failed" if code else "ok", arguments[0], f"exit code {code}")
    finally:
        if process.poll() is None:  # its page is gone: read what it prints, so that it can end
            import threading

            threading.Thread(target=process.communicate, daemon=True).start()


def _tick(state: str, name: str, text: str) -> str:
    return json.dumps({"name": name, "state": state, "found": text, "fix": ""}) + "\n"
