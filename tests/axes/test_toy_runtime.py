"""The contract of runtimes, kept by one from outside the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from axes.toys import NiceRuntime
from contract.test_runtimes import *  # noqa: F403
from holdfast.ports import RuntimeParts

if TYPE_CHECKING:
    from holdfast.ports import Runtime


@pytest.fixture  # type: ignore[no-redef]
def runtime() -> Runtime:
    return NiceRuntime(RuntimeParts("/opt/python", {"name": "toy"}))
