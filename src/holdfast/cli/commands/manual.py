"""``holdfast docs``: opens the manual of this installation, without a network."""

from __future__ import annotations

import os
import sys

from holdfast.errors import ConfigError
from holdfast.present.terminal import is_tty, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parse import Parsed

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SITE, _PAGES = "site/index.html", "docs/index.md"


def docs(parsed: Parsed) -> int:
    """Print where the manual is; at a terminal, open it in a browser too."""
    path = next((path for path in _places() if os.path.isfile(path)), "")
    if not path:
        hint = "in a checkout of Holdfast: make site; or install Holdfast from a wheel, which has the pages"
        raise ConfigError("this installation has no manual", where=_PACKAGE, hint=hint)
    sys.stdout.write(f"{show(path)}\n")
    sys.stdout.flush()
    if path.endswith(".md"):
        sys.stderr.write("the pages as text; a site with a search is made by make site in a checkout of Holdfast\n")
    elif not parsed.flag("no_open") and is_tty(sys.stdout):
        import webbrowser
        from pathlib import Path

        if not webbrowser.open(Path(path).as_uri()):
            sys.stderr.write("no browser could be started; open the file above\n")
    return 0


def _places() -> Iterator[str]:
    """A checkout's, then those of an installed wheel; the site first."""
    checkout = os.path.realpath(os.path.join(_PACKAGE, "..", ".."))
    folders = [os.path.join(sys.prefix, "share", "doc", "holdfast")]
    if os.path.isfile(os.path.join(checkout, "mkdocs.yml")):
        folders.insert(0, checkout)
    for name in (_SITE, _PAGES):
        yield from (os.path.join(folder, *name.split("/")) for folder in folders)
