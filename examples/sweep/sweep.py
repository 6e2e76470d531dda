"""Starts a run of train.py for each learning rate."""

import subprocess

for rate in ("0.5", "0.1", "0.02"):
    subprocess.run(["holdfast", "submit", "-c", "local", "--no-wait", "train.py", "--lr", rate], check=True)
