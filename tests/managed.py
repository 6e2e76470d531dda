"""A desk whose local target builds what the project declares, with tools that are installed once for all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runner.machine.environment import PINS
from holdfast.runner.store.remove_tree import remove_tree
from lab.channel import build_channel
from lab.index import build_index
from lab.shelf import kept

if TYPE_CHECKING:
    from conftest import Desk, Result
    from lab.channel import Channel
    from lab.index import Index

SHELF = Path(__file__).resolve().parent.parent / ".lab"
# How this machine reaches a public index, which a few tests do.
NETWORK = ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
TOOLS = "-".join(PINS).replace("=", "")


def channel() -> Channel:
    return build_channel(SHELF)


def index() -> Index:
    return build_index(SHELF)


def manage(desk: Desk, *lines: str, tools: bool = True) -> Desk:
    """Make the desk's local target a managed one; ``lines`` go into its .compute file."""
    config = desk.project / "aml_config"
    config.mkdir(exist_ok=True)
    text = ["type: local", "userManagedEnvironment: false", *(lines or ("pythonLocation: python",))]
    (config / "local.compute").write_text("\n".join([*text, ""]))
    (config / "local.runconfig").write_text("Target: local\nFramework: Python\n")
    reach_the_network(desk)
    desk.env["UV_HTTP_RETRIES"] = "0"
    if tools:
        lend_tools(desk)
    return desk


def reach_the_network(desk: Desk) -> None:
    desk.env.update({name: os.environ[name] for name in NETWORK if name in os.environ})


def lend_tools(desk: Desk) -> None:
    desk.home.mkdir(exist_ok=True)
    (desk.home / "builder").symlink_to(tools())


def tools() -> Path:
    return kept(SHELF, "builder", TOOLS, _install_tools)


def lend_packages(desk: Desk) -> None:
    """For tests that do not care whether the channel's python was unpacked and compiled before."""
    (SHELF / "packages").mkdir(parents=True, exist_ok=True)
    (desk.home / "cache").mkdir(parents=True, exist_ok=True)
    (desk.home / "cache" / "packages").symlink_to(SHELF / "packages")


def requirements(desk: Desk, server_url: str, *lines: str) -> None:
    text = "\n".join([f"--index-url {index().simple(server_url)}", *lines, ""])
    (desk.project / "requirements.txt").write_text(text)


def conda_file(desk: Desk, channel_url: str, *packages: str) -> None:
    lines = ["channels:", f"- {channel_url}", "- nodefaults", "dependencies:", *(f"- {name}" for name in packages)]
    (desk.project / "aml_config" / "conda_dependencies.yml").write_text("\n".join([*lines, ""]))


def prepared(desk: Desk, **more: Any) -> dict[str, Any]:
    """What ``experiment prepare`` says after it has succeeded."""
    result = desk.holdfast("experiment", "prepare", "-c", "local", **more)
    assert result.code == 0, result.text + result.err
    ledger: dict[str, Any] = result.json
    return ledger


def environments(desk: Desk) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = desk.holdfast("env", "list", "-o", "json").json
    return rows


def builds(desk: Desk) -> int:
    """How often a builder laid the foundation of an environment, counted in everything that builders have logged."""
    logs = [*desk.home.glob("runs/*/a1/environment.log"), *desk.home.glob("cache/prepare-*.log")]
    return sum(log.read_text().count("uv venv ") for log in logs)


def is_whole(desk: Desk) -> bool:
    """Whether the one environment is exactly what its builder published."""
    result = desk.holdfast("env", "verify", "-o", "json")
    return result.code == 0 and result.json == [] and not list((desk.home / "envs").glob("*.tmp"))


def kill_a_builder(desk: Desk, after: float) -> None:
    """Start to prepare, without an environment there, and kill everything that works on it ``after`` seconds."""
    for row in environments(desk):
        remove_tree(os.fsencode(desk.home / "envs" / str(row["key"])))
    with desk.start("experiment", "prepare", start_new_session=True) as process:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            pass
        for pid in _family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)


def _family(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []
    return [*(inner for child in children for inner in _family(child)), pid]


def everything(desk: Desk) -> str:
    """The text of all files that the store holds, links not followed."""
    found = (Path(folder, name) for folder, _, names in os.walk(desk.home) for name in names)
    return "\n".join(path.read_bytes().decode("latin-1") for path in found if path.is_file() and not path.is_symlink())


def pip_variables() -> dict[str, str]:
    """How pip reaches an index from this machine."""
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def shown(result: Result) -> str:
    return result.text + result.err


def _install_tools(place: Path) -> None:
    tools = place / TOOLS
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    subprocess.run([tools / "bin" / "python", "-m", "pip", "install", "-q", *PINS], check=True)
