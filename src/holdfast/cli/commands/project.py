"""``holdfast project ...``"""

from __future__ import annotations

import os
import sys
from shlex import quote

from holdfast.engine import new_project
from holdfast.present.terminal import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed


def create(parsed: Parsed) -> int:
    template, url = parsed.text("template") or "blank", parsed.text("template_url") or ""
    folder = new_project.create(parsed.text("path") or ".", parsed.text("name") or "", template, url)
    script = new_project.first_script(folder) or "your_script.py"
    if parsed.text("output") or parsed.text("query"):
        _emit_created(parsed, folder)
    else:
        sys.stdout.write(f"{show(folder)}\n")
    sys.stderr.write(
        f"next: cd {show(quote(os.path.relpath(folder)))} && holdfast submit -c local {show(quote(script))}\n"
    )
    return 0


def _emit_created(parsed: Parsed, folder: str) -> None:
    from holdfast import project as projects
    from holdfast.present.output import emit

    project = projects.find(folder)
    row = {
        "account": parsed.text("account") or project.account,
        "id": project.id,
        "location": parsed.text("location") or "local",
        "name": project.name,
        "path": folder,
        "resourceGroup": parsed.text("resource_group") or "local",
        "workspace": parsed.text("workspace") or project.workspace,
    }
    emit(row, **parsed.form())


def list_samples(parsed: Parsed) -> int:
    from holdfast.present.output import emit

    folders = new_project.templates()
    rows = [{"name": name, "summary": new_project.summary(folder)} for name, folder in folders.items()]
    emit(rows, **parsed.form(), columns=("name", "summary"))
    return 0
