"""``holdfast mcp``: starts the MCP server for AI agents"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed

_SKILL = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "skill", "SKILL.md")


def mcp(parsed: Parsed) -> int:
    if parsed.flag("skill"):
        with open(_SKILL, encoding="utf-8") as source:
            sys.stdout.write(source.read())
        return 0
    project = projects.find(parsed.text("project") or os.getcwd())
    try:
        from holdfast.cli.mcp_server import serve
    except ImportError as error:
        from holdfast.present.install_hint import install_hint

        raise UsageError(
            "the Model Context Protocol's library is not installed here",
            answer=str(error),
            hint=install_hint("mcp"),
        ) from error
    serve(project.root)
    return 0
