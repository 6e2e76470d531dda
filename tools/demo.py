"""What ``make demo`` does: a sample project in a folder of its own, two runs of it, and what can be seen afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".demo"


def main() -> int:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "HOLDFAST_HOME": str(PLACE / "store"), "HOLDFAST_PAGER": "cat"}
    env["PATH"] = f"{bin_folder}:{os.environ['PATH']}"

    def do(command: str, folder: Path) -> None:
        print(f"\n\033[1m$ {command}\033[0m" if sys.stdout.isatty() else f"\n$ {command}", flush=True)
        subprocess.run(command.split(), cwd=folder, env=env, check=True)

    do("holdfast project create --name digits --path . --template digits", PLACE)
    project = PLACE / "digits"
    do("holdfast experiment submit -c local train.py --lr 0.1", project)
    do("holdfast submit -c local train.py --lr 0.01", project)
    do("holdfast history list -o table", project)
    do("holdfast info -r 1 -o table", project)
    print(f"""
Where to look next:
  cd {project.relative_to(Path.cwd()) if project.is_relative_to(Path.cwd()) else project}
  export HOLDFAST_HOME={PLACE / "store"} PATH={bin_folder}:$PATH
  holdfast submit -c local train.py --lr 0.5       another run
  holdfast logs -r 1                               what the first one printed
  holdfast history list --query "max_by(@, &Accuracy).run_id"
  holdfast -h                                      everything else""")
    return 0


if __name__ == "__main__":
    sys.exit(main())
