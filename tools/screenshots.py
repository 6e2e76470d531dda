"""Takes docs/screenshots: makes a project with runs, GPU samples and a machine, and opens each screen in Chromium.

``unshare --mount .venv/bin/python tools/screenshots.py [SCREEN...]`` as root: /home becomes a folder in memory, so that
the pages show /home/ada. Look at every picture afterwards.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import sync_playwright  # noqa: E402

from conftest import Desk  # noqa: E402
from gpuruns import HandRun, receipt, write_series  # noqa: E402
from web.client import Server  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

TARGET = ROOT / "docs" / "screenshots"
DARK = ("compare", "files", "run", "runs")
TRAIN = '''"""Train a small network on handwritten digits."""

import argparse
import math
import os
import random

import holdfast
from PIL import Image

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--depth", type=int, default=2)
args = parser.parse_args()

for step in range(60):
    loss = math.exp(-step * args.lr / 10) + random.random() / 20
    holdfast.log("loss", loss)
    holdfast.log("accuracy", 1 - loss / 2 * (1 + args.depth / 50))
    print(f"epoch {step} loss {loss:.4f}", flush=True)

os.makedirs("outputs", exist_ok=True)
for step in range(3):
    shade = (60 + 60 * step, int(800 * args.lr) % 255, 120)
    holdfast.log_image("sample", Image.new("RGB", (96, 64), shade), step=step)
with open("outputs/classes.csv", "w") as table:
    table.write("class,precision,recall\\n0,0.98,0.97\\n1,0.99,0.99\\n2,0.95,0.96\\n")
'''

CONDA = """name: digits
channels: [conda-forge]
dependencies:
  - python=3.11
  - numpy
  - pip:
    - torch==2.4  # the one that the driver of gpu1 knows
    - pillow
"""
COMPUTE = (
    "# the machine in the cellar\ntype: remotedocker\naddress: gpu1.example.org\nusernam: ada\nnvidiaDocker: true\n"
)
README = "# Digits\n\nTrains a small network on handwritten digits.\n\n    holdfast submit -c local train.py --lr 0.1\n"
LONG = "import sys\nprint('waits', flush=True)\nopen(sys.argv[1]).read()\n"


def main() -> int:
    home = Path("/home/ada")
    if os.geteuid() != 0 or home.exists():
        sys.stderr.write("start it as root with unshare --mount, where there is no /home/ada\n")
        return 1
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "home", "/home"], check=True)
    home.mkdir()
    desk = Desk(home)
    venv = home / ".venv"
    venv.mkdir()
    subprocess.run(["mount", "--bind", str(Path(sys.prefix)), str(venv)], check=True)
    command = home / "holdfast"
    command.write_text(f'#!/bin/sh\nexec {venv}/bin/python -m holdfast "$@"\n')
    command.chmod(0o755)
    desk.command = str(command)
    desk.env["PATH"] = f"{venv}/bin:{os.environ['PATH']}"
    desk.project = (home / "project").rename(home / "digits")
    gate = home / "gate"
    os.mkfifo(gate)
    gpu_run = _gpu_run(desk)
    _project(desk)
    for rate in (0.05, 0.1, 0.2, 0.4, 0.8):
        for depth in (1, 2, 4):
            assert desk.submit("train.py", "--lr", str(rate), "--depth", str(depth)).code == 0
    desk.script(TRAIN.replace("range(60)", "range(80)"))
    assert desk.submit("--no-wait", "wait.py", str(gate)).code == 0
    server = Server(desk, "--port", "0", "--terminal").sign_in()
    try:
        _take_all(desk, server, gpu_run)
    finally:
        server.stop()
        gate.write_text("go")
    return 0


def _project(desk: Desk) -> None:
    (desk.project / "README.md").write_text(README)
    (desk.project / "aml_config").mkdir(exist_ok=True)
    (desk.project / "aml_config" / "conda_dependencies.yml").write_text(CONDA)
    (desk.project / "aml_config" / "gpu1.compute").write_text(COMPUTE)
    desk.script(LONG, "wait.py")
    desk.script(TRAIN)


def _gpu_run(desk: Desk) -> str:
    """A run of five minutes whose GPU waits for data now and then."""
    hand, chance, steps = HandRun(desk), random.Random(1), 300
    loss = [math.exp(-step / 80) for step in range(steps)]
    write_series(hand.attempt / "metrics", {"loss": loss, "accuracy": [1 - value / 2 for value in loss]})
    busy = [(94 if step % 60 < 41 else 6) + chance.random() * 4 for step in range(steps)]
    lines = [f"step {step} loss {value:.4f}\n" for step, value in enumerate(loss)]
    sizes = [float(sum(map(len, lines[: step + 1]))) for step in range(steps)]
    memory = [1.2e10 if step < 5 else 1.6e10 for step in range(steps)]
    power = [120 + value * 5.5 for value in busy]
    lanes = {"gpu0.busy": busy, "gpu0.memory": memory, "gpu0.power": power, "log.bytes": sizes}
    write_series(hand.attempt / "gpu", lanes)
    hand.log("".join(lines))
    hand.end(**receipt())
    return str(hand.record["uid"])


def _take_all(desk: Desk, server: Server, gpu_run: str) -> None:
    rows = server.get("/rows.json").json["rows"]
    project = server.get("/projects.json").json[0]["id"]
    chosen = [str(desk.record(number)["uid"]) for number in ("16", "10", "4")]
    axes = "&axis=".join(("params.lr", "params.depth", "metrics.loss", "metrics.accuracy", "duration"))
    prompt = server.post(f"/projects/{project}/prompt", {}).headers["location"]
    assert len(rows) == 17
    screens = {
        "charts": f"/runs?chart=parallel&where=script_name = 'train.py'&axis={axes}",
        "code": f"/runs/{chosen[0]}/code",
        "compare": f"/compare?run={chosen[0]}&run={chosen[1]}&run={chosen[2]}",
        "dashboard": f"/projects/{project}",
        "dependencies": f"/projects/{project}/files?folder=aml_config&file=aml_config/conda_dependencies.yml",
        "files": f"/projects/{project}/files?file=train.py",
        "form": f"/projects/{project}/files?folder=aml_config&file=aml_config/gpu1.compute",
        "help": "/help",
        "jobs": "/jobs",
        "log": f"/runs/{gpu_run}/log",
        "output": f"/runs/{chosen[0]}/outputs?name=outputs/classes.csv",
        "projects": "/projects",
        "prompt": prompt,
        "run": f"/runs/{gpu_run}",
        "run-dialog": f"/projects/{project}/run?script=train.py&config=local&arguments=--lr 0.3",
        "runs": "/runs",
        "settings": "/settings",
        "targets": f"/targets?project={project}&test=local",
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        name, _, value = server.cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": f"http://{server.host}"}])
        page = context.new_page()
        chosen_screens = {name: path for name, path in screens.items() if name in (sys.argv[1:] or screens)}
        for screen, path in chosen_screens.items():
            for theme in ("light", "dark") if screen in DARK else ("light",):
                page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
                page.goto(f"http://{server.host}{path}", wait_until="networkidle" if screen == "targets" else "load")
                _prepare(page, screen)
                page.screenshot(path=TARGET / f"{screen}-{theme}.png")
        browser.close()


def _prepare(page: Page, screen: str) -> None:
    """Wait for what the page draws by itself, and point at something on it."""
    ready = {
        "charts": "#points[data-ready='15']",
        "compare": "#charts[data-drawn]",
        "log": "#log[data-ready] div",
        "run": "#charts .chart:nth-child(5)",
        "run-dialog": "#preflight[data-ready]",
        "targets": "#targets li:nth-child(7)",
        "prompt": "#prompt[data-ready]",
    }
    if screen in ready:
        page.wait_for_selector(ready[screen])
    if screen == "run":
        page.locator("#events .idle").nth(2).click()
        page.wait_for_selector("#printed a:nth-child(6)")
    if screen == "prompt":
        page.keyboard.type("holdfast history list --limit 3\n")
        page.wait_for_selector("#screen >> text=Completed")


if __name__ == "__main__":
    sys.exit(main())
