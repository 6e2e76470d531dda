"""``reproduce --recorded-packages`` with a record that a target or an archive wrote."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

from builder.wheels import write_wheel
from managed import lend_tools, shown

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

SCRIPT = """
import holdfast, importlib.util
holdfast.log("x", 1)
print("has", [name for name in ("tinylocal", "foreign") if importlib.util.find_spec(name)])
"""


def replace_record(desk: Desk, change: dict[str, Any], packages: list[dict[str, Any]]) -> None:
    """What a hostile target would have sent as the record of the run: the list, with its hash in the event."""
    path = desk.attempt() / "metrics" / "packages.json"
    record = json.loads(path.read_bytes())
    data = json.dumps({**record, "packages": packages, "python": {**record["python"], **change}}).encode()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    path.unlink()
    path.write_bytes(data)
    events = desk.attempt() / "events.jsonl"
    assert before in events.read_text()
    events.write_text(events.read_text().replace(before, hashlib.sha256(data).hexdigest()))


def test_reproduce_starts_no_recorded_path_and_installs_from_no_recorded_address(desk: Desk, tmp_path: Path) -> None:
    lend_tools(desk)
    write_wheel(tmp_path / "wheels", "tinylocal", "1.0", {"tinylocal.py": ""})
    desk.env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "wheels"))
    desk.script(SCRIPT)
    assert desk.submit("train.py").code == 0
    base = tmp_path / "base-python"
    base.write_text(f'#!/bin/sh\ntouch {tmp_path}/base-ran\nexec {sys.executable} "$@"\n')
    base.chmod(0o755)
    address = "https://127.0.0.1:1/foreign-1.0-py3-none-any.whl"
    packages = [
        {"name": "tinylocal", "version": "1.0", "installer": "pip"},
        {"name": "foreign", "version": "1.0", "installer": "pip", "url": address},
        {"name": "injected", "version": "1.0\n--index-url https://127.0.0.1:1/simple", "installer": "pip"},
    ]
    replace_record(desk, {"base": str(base)}, packages)
    result = desk.holdfast("reproduce", "-r", "1", "--recorded-packages")
    assert result.code == 0, shown(result)
    assert "has ['tinylocal']" in result.err
    assert f"foreign is not installed again: it was installed from {address}; --allow-urls" in result.err
    assert "injected is not installed again" in result.err
    assert not (tmp_path / "base-ran").exists()
    allowed = desk.holdfast("reproduce", "-r", "1", "--recorded-packages", "--allow-urls")
    assert (allowed.code != 0, "127.0.0.1:1" in allowed.err) == (True, True), shown(allowed)


def test_allow_urls_without_recorded_packages_is_refused(desk: Desk) -> None:
    desk.script(SCRIPT)
    assert desk.submit("train.py").code == 0
    result = desk.holdfast("reproduce", "--allow-urls")
    assert (result.code, "--recorded-packages" in result.err) == (2, True), shown(result)
