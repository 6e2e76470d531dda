"""What ``holdfast du`` counts for which purpose."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.store import disk_usage
from holdfast.store.home import Home

if TYPE_CHECKING:
    from pathlib import Path


def test_files_that_environment_and_package_cache_share_count_as_environment(tmp_path: Path) -> None:
    cache, environment = tmp_path / "cache" / "packages", tmp_path / "envs" / "e1"
    cache.mkdir(parents=True)
    environment.mkdir(parents=True)
    (cache / "torch.so").write_bytes(b"x" * 100_000)
    os.link(cache / "torch.so", environment / "torch.so")
    (cache / "unused.whl").write_bytes(b"x" * 10_000)
    (tmp_path / "cache" / "stat").write_bytes(b"x")
    counted = {row["what"]: row["files"] for row in disk_usage.measure(Home(str(tmp_path), ""))}
    assert {name: count for name, count in counted.items() if count} == {"envs": 1, "packages": 1, "other": 1}
