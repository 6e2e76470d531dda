"""An environment built by one version is used by the other, and so is its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import managed
from compatibility.conftest import roles
from lab.server import serve
from managed import environments, is_whole, manage, prepared, requirements, shown

if TYPE_CHECKING:
    from compatibility.conftest import Earlier
    from conftest import Desk


@pytest.mark.parametrize("starter", ["earlier", "present"])
def test_environment_and_lock_of_one_version_serve_the_other(desk: Desk, earlier: Earlier, starter: str) -> None:
    manage(desk)
    desk.script("import tinypip; print('with', tinypip.WHOLE)\n")
    builder, user = roles(desk, earlier, starter)
    with serve(managed.index().path) as server:
        requirements(desk, server.url, "tinydep >= 0.5 ; python_version >= '3.6'", "TinyPip ~= 1.0")
        key = prepared(builder)["environment"]
        locked = builder.holdfast("env", "lock", "-c", "local")
        assert locked.code == 0, shown(locked)
        server.paths.clear()
        result = user.submit("train.py")
        assert result.code == 0, shown(result)
        assert "\nwith 1.1\n" in result.text
        assert server.paths == []
    assert [row["key"] for row in environments(user)] == [key]
    assert is_whole(user)
