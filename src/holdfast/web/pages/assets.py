"""Style sheets and scripts: files of the package, by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "static")
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
NAMES = frozenset(name for name in os.listdir(_FOLDER) if os.path.splitext(name)[1] in _KINDS)


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in NAMES:
        raise HTTPException(404, "no such file")
    return FileResponse(
        os.path.join(_FOLDER, name),
        media_type=_KINDS[os.path.splitext(name)[1]],
        headers={"cache-control": "private, max-age=300"},
    )
