"""The steps of the Workbench's GPU guide that are in its app, in a browser's requests to ``holdfast ui --terminal``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from azure_cli import guide
from conftest import eventually
from web.client import Server

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = "my_tensorflow_or_cntk_script.py"


def test_steps_of_the_guide_that_are_in_the_app(desk: Desk) -> None:
    """The command prompt, the files view after a refresh, and a run of the script."""
    for name in ("my-deep-learning-script.py", SCRIPT):
        desk.script("print('trained')\n", name)
    server = Server(desk, "--port", "0", "--terminal").sign_in()
    try:
        project = next(row["id"] for row in server.get("/projects.json").json if row["runs"])
        prompt = server.post(f"/projects/{project}/prompt", {}).headers["location"]
        before = server.get("/rows.json").json["total"]
        server.post(f"{prompt}/keys", {"keys": f"{guide.REM}\r{guide.LOCAL}\r", "rows": "30", "columns": "200"})
        eventually(lambda: server.get("/rows.json").json["total"] == before + 1, 60)
        assert desk.wait_for_end("last")["script_name"] == "my-deep-learning-script.py"
        files = f"/projects/{project}/files?folder=aml_config"
        assert "my_dsvm.runconfig" not in server.get(files).text
        create = "az ml runconfiguration create -n my_dsvm -t local"
        server.post(f"{prompt}/keys", {"keys": f"{create}\r"})
        eventually((desk.project / "aml_config" / "my_dsvm.runconfig").exists, 60)
        assert "my_dsvm.runconfig" in server.get(files).text, "after the page is loaded again"
        page = server.get(f"/projects/{project}/run?script={SCRIPT}&config=my_dsvm").text
        ticket = re.search(r'name="ticket" value="([^"]+)"', page)
        assert ticket
        started = server.post(
            f"/projects/{project}/submit", {"script": SCRIPT, "config": "my_dsvm", "ticket": ticket[1]}
        )
        assert started.status == 303, started.text
        record = desk.wait_for_end("last")
        assert (record["script_name"], record["status"]) == (SCRIPT, "Completed")
        server.post(f"{prompt}/close", {})
    finally:
        server.stop()
