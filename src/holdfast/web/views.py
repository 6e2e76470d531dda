"""Saved views of the page Runs: names for addresses, kept with the preferences of the pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.runner import json_text
from holdfast.web import servers

if TYPE_CHECKING:
    from holdfast.store.home import Home

_LONGEST_NAME = 100
_MOST = 200


def every(home: Home) -> dict[str, str]:
    """Addresses by name."""
    try:
        result = json_text.loads(servers.preferences(home).get("views", "{}"))
    except (ValueError, RecursionError):
        return {}
    known = result.items() if isinstance(result, dict) else ()
    return {name: path for name, path in known if isinstance(path, str) and path.startswith("/runs")}


def save(home: Home, name: str, path: str, is_kept: bool) -> None:
    name = name.strip()
    if not 0 < len(name) <= _LONGEST_NAME:
        raise UsageError(
            f"a view needs a name of at most {_LONGEST_NAME} characters", hint="write its name and save it"
        )
    with home.lock("ui-preferences"):
        known = every(home)
        known.pop(name, None)
        if is_kept and len(known) >= _MOST:
            raise UsageError(f"there are {_MOST} saved views", hint="remove one of them first")
        servers.prefer(home, views=json.dumps({**known, **({name: path} if is_kept else {})}))
