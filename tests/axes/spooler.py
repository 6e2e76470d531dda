"""The other half of the spool: ``python spooler.py FOLDER`` runs the jobs in a folder, one after the other or at once.

Commands take the name of a subfolder, too, as a queue with partitions does. A job is ``NAME.job``, and ``NAME.running``
while it runs. Jobs wait as long as there is a file ``hold``.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

SUBMIT = """#!/bin/sh
umask 077
cd "{spool}/$1" || exit 3
job=$(date +%s%N)-$$
cat > "$job.new" && mv "$job.new" "$job.job" && echo "$job"
"""
LIST = """#!/bin/sh
cd "{spool}/$1" || exit 1
for file in *.job *.running; do [ ! -e "$file" ] || echo "${{file%.*}}"; done
"""
REMOVE = """#!/bin/sh
rm -f "{spool}/$2/$1.job"
"""


def write_commands(folder: Path, spool: Path) -> None:
    for name, text in (("spool-submit", SUBMIT), ("spool-list", LIST), ("spool-remove", REMOVE)):
        (folder / name).write_text(text.format(spool=spool))
        (folder / name).chmod(0o755)


def serve(spool: Path) -> None:
    running: dict[Path, subprocess.Popen[bytes]] = {}
    while True:
        for job in [] if (spool / "hold").exists() else sorted(spool.rglob("*.job")):
            taken = job.with_suffix(".running")
            with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                job.rename(taken)
                argv = ["/bin/sh", str(taken)]
                running[taken] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        for taken in [taken for taken, process in running.items() if process.poll() is not None]:
            taken.unlink()
            del running[taken]
        time.sleep(0.02)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
