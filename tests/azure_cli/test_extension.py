"""``az ml`` of Microsoft's own Azure CLI, with the extension: offline, without a login."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from azure_cli.conftest import AZ
from holdfast.cli.table.azure import azure_table

if TYPE_CHECKING:
    from pathlib import Path

    from azure_cli.conftest import AzureCli
    from conftest import Desk

SHOW = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"
RIVAL = """
from azure.cli.core import AzCommandsLoader
from azure.cli.core.commands import CliCommandType

def run(cmd):
    return {"by": "rival"}

class Loader(AzCommandsLoader):
    def __init__(self, cli_ctx=None):
        super().__init__(cli_ctx=cli_ctx, custom_command_type=CliCommandType(operations_tmpl="azext_rival#{}"))
    def load_command_table(self, args):
        with self.command_group("ml workspace") as group:
            group.custom_command("list", "run")
        with self.command_group("ml history") as group:
            group.custom_command("list", "run")
        return self.command_table
    def load_arguments(self, command):
        pass

COMMAND_LOADER_CLS = Loader
"""


def test_words_after_the_script_are_the_scripts_own(desk: Desk, az: AzureCli) -> None:
    desk.script(SHOW)
    desk.script("not an argument file", "values.txt")
    given = ["--lr", "0.1", "-o", "out.h5", "--query", "x", "-h", "--verbose", "@values.txt", "--no", "a b", "--", "-c"]
    result = az(desk, "ml", "experiment", "submit", "-c", "local", "train.py", *given)
    assert result.code == 0, result
    assert json.dumps(given) in result.text
    assert result.text.startswith("RunId: ")


def test_exit_code_output_formats_and_errors_are_holdfasts(desk: Desk, az: AzureCli) -> None:
    desk.script("raise SystemExit(7)")
    assert az(desk, "ml", "execute", "start", "-t", "local", "train.py").code == 7
    assert az(desk, "ml", "history", "list", "--query", "[0].exit_code", "-o", "tsv").text == "7\n"
    assert az(desk, "ml", "history", "list", env={"AZURE_CORE_OUTPUT": "table"}).text.startswith("Duration")
    refused = az(desk, "ml", "history", "list", "--bogus")
    assert (refused.code, refused.err.splitlines()[-1][:29]) == (2, "ERROR: unknown option '--bogu")


def test_accounts_projects_and_services_answer(desk: Desk, az: AzureCli) -> None:
    (account,) = az(desk, "ml", "account", "experimentation", "list").json
    assert (account["name"], account["resourceGroup"], account["location"]) == ("local", "local", "local")
    names = ("-n", "new", "-a", "acc", "-w", "wsp", "-g", "grp", "-l", "westus")
    created = az(desk, "ml", "project", "create", *names, "-o", "json").json
    assert (created["name"], created["path"]) == ("new", str(desk.project / "new"))
    refused = az(desk, "ml", "model", "register", "-m", "x.pkl")
    assert refused.code == 2
    assert refused.err.startswith("ERROR: az ml model is not offered: models are not registered")
    assert refused.err.count("\n") == 1


def test_help_has_the_options_of_the_command_table(desk: Desk, az: AzureCli) -> None:
    page = az(desk, "ml", "computetarget", "attach", "-h").text
    assert "az ml computetarget attach : Add a machine as a target." in page
    assert "--use-azureml-ssh-key -k : Create and use a key for this target." in page


def test_without_holdfast_it_says_what_to_install(desk: Desk, az: AzureCli) -> None:
    refused = az(desk, "ml", "history", "list", env={"PATH": "/usr/bin:/bin"})
    assert refused.code == 1
    assert "the program holdfast, which runs this command, is not on the PATH" in refused.err
    assert "pip install holdfast" in refused.err


def test_no_command_of_the_azure_cli_is_replaced(az: AzureCli) -> None:
    """All commands are below ``ml``, which the Azure CLI itself does not have."""
    names = azure_table()["commands"]
    assert len(names) > 30
    index = next(AZ.parents[1].glob("lib/python3*/site-packages/azure/cli/core/commandIndex.latest.json"))
    assert "ml" not in json.loads(index.read_text())["commandIndex"]


def test_commands_of_microsofts_extension_stay_its_own(desk: Desk, az: AzureCli, tmp_path: Path) -> None:
    rival = az.extensions / "ml"
    (rival / "azext_rival").mkdir(parents=True)
    (rival / "azext_rival" / "__init__.py").write_text(RIVAL)
    (rival / "azext_rival" / "azext_metadata.json").write_text('{"azext.minCliCoreVersion": "2.0.0"}')
    info = rival / "ml-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ml\nVersion: 2.0\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\n")
    env = {**os.environ, **az.env, "AZURE_CONFIG_DIR": str(tmp_path / "config")}
    try:
        done = subprocess.run([AZ, "ml", "workspace", "list"], env=env, capture_output=True, check=False, timeout=240)
        assert json.loads(done.stdout) == {"by": "rival"}, done
        done = subprocess.run([AZ, "ml", "history", "list"], env=env, capture_output=True, check=False, timeout=240)
        assert json.loads(done.stdout) == {"by": "rival"}, done
        assert b"az extension remove --name ml; or type holdfast history list" in done.stderr
    finally:
        import shutil

        shutil.rmtree(rival)
