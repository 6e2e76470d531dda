"""A conversation with ``holdfast mcp`` by the official client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp import Client, StdioServerParameters, stdio_client

from conftest import HOLDFAST

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from conftest import Desk


def talk(desk: Desk, what: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def conversation() -> None:
        server = StdioServerParameters(command=str(HOLDFAST), args=["mcp"], cwd=str(desk.project), env=desk.env)
        async with Client(stdio_client(server)) as client:
            await what(client)

    asyncio.run(asyncio.wait_for(conversation(), 100))


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    said = await client.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in said.content)
    if said.is_error:
        raise AssertionError(text)
    found = said.structured_content
    return found["result"] if found is not None and set(found) == {"result"} else found if found is not None else text
