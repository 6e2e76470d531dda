"""The guide of the manual: its translations have the same blocks, and the commands of the English page run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azure_cli.test_guide import FIVE_LINES, card
from enginelab import Docker
from fakecuda import HAS_COMPILER
from holdfast.amlconfig.types import DEFAULT_IMAGE
from holdfast.runner.container.gpu_passthrough import FOLDER
from sshlab import Unavailable

if TYPE_CHECKING:
    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import Host, User

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "guide").glob("*.md"))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
# Commands of providers and of the first boot of a machine, which no test can run.
PROVIDERS = re.compile(r"(az|loginctl|systemctl|aws|gcloud|hcloud|scw|wakeonlan) |ssh gpu1 sudo poweroff$")


def blocks(page: Path) -> list[tuple[str, str]]:
    return _BLOCK.findall(page.read_text())


def test_translations_have_the_blocks_of_the_english_page_byte_by_byte() -> None:
    assert {page.stem for page in PAGES} == {"en", "ja", "zh-TW", "de", "fr", "pt-BR"}
    (english,) = [page for page in PAGES if page.stem == "en"]
    for page in PAGES:
        text = page.read_text()
        assert blocks(page) == blocks(english), page
        assert [line.count("#") for line in text.splitlines() if line.startswith("#")] == [1, *[2] * 7]
        assert set(re.findall(r"\]\(([^)\s]+\.md)", text)) | {page.name} == {
            *(other.name for other in PAGES),
            *("../getting-a-machine.md", "../gpu.md", "../containers.md", "../getting-started.md"),
        }


def test_commands_of_a_machines_page_are_ours_or_a_providers() -> None:
    text = (DOCS / "getting-a-machine.md").read_text()
    spans = re.findall(r"`([a-z]+ [^`]+)`", _BLOCK.sub("", text).replace("\n", " "))
    spans += re.findall(r"^    ([a-z]\S+ [^#\n]+)", text, re.M)  # lines of code, without those that go on
    spans += re.findall(r"^(?:start|stop)Command: (.+)$", text, re.M)
    commands = [span for span in spans if re.match(r"[a-z]+ [a-z-]", span) and not span.startswith("sudo ")]
    ours = [command for command in commands if command.startswith("holdfast ")]
    assert len(ours) >= 4
    assert [command for command in commands if command not in ours and not PROVIDERS.match(command)] == []


def give_state(laptop: Laptop, compute: Path) -> None:
    """What the card of ours says is in a file beside its library; it must be in the container, too."""
    beside = f"type=bind,source=/usr/lib/x86_64-linux-gnu/state,target={FOLDER}/state,readonly"
    compute.write_text(f"{compute.read_text()}dockerArguments: --mount {beside}\n")
    done = laptop.holdfast("trust", "gpubox", cwd=compute.parents[1])
    assert done.code == 0, done


@pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
def test_commands_of_the_guide_run_in_order(laptop: Laptop, gpu1: Host, ada: User, tmp_path: Path) -> None:
    (english,) = [page for page in PAGES if page.stem == "en"]
    kinds = blocks(english)
    scripts = [text.replace("gpu1.example.org", gpu1.hostname) for kind, text in kinds if kind == "console"]
    settings, conda = [text for kind, text in kinds if kind == "yaml"]
    laptop.client.trust(gpu1)
    ada.authorize(laptop.client.key())
    folder = laptop.project
    outputs = []
    try:
        card(gpu1, tmp_path / "card")
        with Docker(gpu1) as docker:
            docker.run("tag", "base:py", DEFAULT_IMAGE)
            for script in scripts:
                attach, end, more = script.partition(" --username ada\n")
                for part in (attach + end, more) if "attach" in attach else (script,):
                    done = laptop.holdfast("-ec", part, command="/bin/bash", cwd=folder, limit=280)
                    assert done.code == 0, (part, done)
                    outputs.append(done.text)
                    folder = laptop.project / "first"
                    if "attach" in part:
                        give_state(laptop, folder / "aml_config" / "gpubox.compute")
            assert "Completed" in outputs[0]
            assert (folder / "gpubox.yaml").read_text().startswith("#cloud-config\n")
            compute = (folder / "aml_config" / "gpubox.compute").read_text().splitlines()
            assert set(settings.splitlines()) <= set(compute)
            assert FIVE_LINES in outputs[-1]
            assert (folder / "outputs" / "note.txt").read_text() == "made by train.py\n"
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")
    (folder / "aml_config" / "conda_dependencies.yml").write_text(conda)
    assert laptop.holdfast("check", cwd=folder).code == 0


def test_docs_prints_where_the_manual_is(desk: Desk) -> None:
    """At a terminal it also starts a browser; here it is a pipe."""
    result = desk.holdfast("docs")
    assert result.code == 0, result
    assert Path(result.text.strip()) in (DOCS / "index.md", DOCS.parent / "site" / "index.html")
    assert Path(result.text.strip()).is_file()
