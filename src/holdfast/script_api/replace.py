"""Replaces a file as a whole: a reader sees the old content or the new one.

In a run this file is ``_holdfast_replace.py``, for Python 3.6 and newer.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def replace_file(path: "str", write: "Callable[[str], object]") -> "None":
    """``write`` makes the new content at the path that it is given; that file then takes the name ``path``."""
    beside = "%s.%d.tmp" % (path, os.getpid())
    try:
        write(beside)
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def replace_text(path: "str", text: "str") -> "None":
    def write(beside: "str") -> "None":
        with open(beside, "w", encoding="utf-8") as target:
            target.write(text)

    replace_file(path, write)
