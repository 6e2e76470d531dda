"""What is concluded from readings of GPUs and said about them, as tables."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

from goldens import answered, assert_table
from gpuruns import USE, WISH, receipt
from holdfast.advice import gpu_doctor, script_source
from holdfast.present import gpu_receipt, gpu_verdict
from holdfast.runner.gpu import probe_verdict
from holdfast.runner.gpu import receipt as readings
from holdfast.store.runs import Run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

WELL: dict[str, Any] = {
    "python": "3.9",
    "program": "/usr/bin/python3",
    "library": "",
    "visible": None,
    "cuda": "12.4",
    "nodes": ["/dev/nvidia0"],
    "refused": None,
    "seconds": 1.0,
    "devices": [{"index": 0, "name": "NVIDIA L4", "uuid": "GPU-1", "major": 8, "minor": 9}],
    "packages": [],
}


def package(
    name: str, version: str = "2.1.0", build: str = "cuda", cuda: str | None = None, cudnn: bool | None = None
) -> dict[str, Any]:
    return {"name": name, "version": version, "build": build, "cuda": cuda, "cudnn": cudnn}


PACKAGES = (
    *(
        package("torch", build="cpu"),
        package("torch", build="rocm"),
        package("torch", cuda="12.4"),
        package("torch", cuda="12.8"),
        package("torch", cuda="13.0"),
        package("torch", cuda="11.8"),
    ),
    *(
        package("tensorflow", cudnn=False),
        package("tensorflow", "1.15", "cpu"),
        package("tensorflow", "1.15", cudnn=False),
        package("tensorflow-cpu", build="cpu"),
        package("jax", build="cpu"),
    ),
    *(
        package("jax", cuda="13.1"),
        package("odd", build="cpu"),
        package("odd", build="rocm"),
        package("tensorflow", "", "cpu"),
        package("tensorflow", cuda="11.2", cudnn=True),
        package("torch", "", "cpu"),
    ),
)
CUDAS = ("", "9.2", "10.1", "10.2", "11.0", "11.8", "12.4", "13.0", "x")


def test_verdicts_of_the_probe() -> None:
    changes: list[dict[str, Any]] = [
        *(
            {},
            {"library": "libcuda.so.1: no such file"},
            {"library": "gone", "program": ""},
            {"devices": []},
            {"devices": [], "nodes": []},
            {"devices": [], "visible": "", "nodes": []},
        ),
        *({"devices": [], "visible": text} for text in ("-1", "none", "NoDevFiles", "7")),
        *(
            {"refused": {"step": "cuInit", "code": code, "name": "CUDA_ERROR"}}
            for code in (2, 3, 34, 35, 46, 100, 101, 802, 803, 804, 999)
        ),
        *(
            {"trials": [{"ok": True}, {"ok": False, "name": "L4", "note": "1.0 is not 2.0", "refused": refused}]}
            for refused in (None, *({"step": "cuMemAlloc", "code": code, "name": "OOM"} for code in (2, 46, 700)))
        ),
        *({"packages": [row]} for row in PACKAGES),
        *(
            {"packages": [PACKAGES[0], PACKAGES[2]]},
            {"packages": [PACKAGES[0], PACKAGES[4]]},
            {"packages": [PACKAGES[4]], "cuda": None},
        ),
    ]
    rows = [
        f"{change} {contained}: {probe_verdict.judge({**WELL, **change}, contained)}"
        for change in changes
        for contained in (False, True)
    ]
    rows += [answered(probe_verdict.too_new, cuda, driver) for cuda, driver in product(CUDAS, CUDAS)]
    assert_table("probe-verdicts", rows)


def test_documents_of_the_probe() -> None:
    trial = {
        "index": 1.5,
        "name": "a\x1bb",
        "uuid": 5,
        "ok": 1,
        "bytes": True,
        "how": "x" * 501,
        "note": None,
        "seconds": 1e15,
        "refused": {"step": "s", "code": -5, "name": "n"},
    }
    documents: tuple[Any, ...] = (
        *(
            {},
            [],
            {"devices": 5},
            {"devices": []},
            {
                "devices": [5, {"index": 2, "major": "8"}] * 3,
                "packages": [{"cudnn": True, "cuda": "12", "name": "é\u00a0ü"}, {"cudnn": 0, "cuda": 5}],
            },
        ),
        *(
            {"devices": [], "trials": [trial, 7, {"ok": True, "seconds": 9.9e14, "refused": 5}], "refused": {}},
            {"devices": [], "visible": "", "cuda": 5, "seconds": "x", "nodes": ["/dev/a", 5]},
        ),
        *({"devices": [{"index": n} for n in range(65)]}, {"devices": [], "nodes": ["n"] * 65}),
    )
    rows = [
        f"{str(document)[:120]}: {str(probe_verdict.parsed(json.dumps(document).encode()))[:1200]}"
        for document in documents
    ]
    rows += [
        f"{len((probe_verdict.parsed(json.dumps(document).encode()) or {})[key])}"
        for document, key in zip(documents[-2:], ("devices", "nodes"), strict=True)
    ]
    rows += [answered(probe_verdict.parsed, text) for text in (b"", b"{", b"\xff{}", b'{"devices": []')]
    assert_table("probe-documents", rows)


def test_receipts_of_a_run() -> None:
    look = {"busy": 50, "watts": 100.0, "memory": 10}
    rows = []
    for busy, steps, peak, given in product(
        (None, 0, 0.5, 1, 30), (1, 2, 3, 400), (5, (1 << 20) + 5, (1 << 20) + 6), (True, False)
    ):
        card = readings.Card({"uuid": "GPU-1", "index": 2, "name": "L4", "memory_total": 24}, given)
        for step in range(steps):
            card.look(1.0, {**look, "busy": busy, "watts": None if busy == 1 else 70.5})
            card.ours(float(step), 7, peak if step else 5, "python")
        verdict = readings.judged([card], {}, float(steps))
        rows.append(
            f"busy {busy}, {steps} s, {peak} B, given {given}: held {card.held} used {card.used} {card.stayed_s}"
            f" {verdict}"
        )
        rows.append(json.dumps(card.told(float(steps)), sort_keys=True) if peak == 5 and given else "")
    assert_table("receipts", filter(None, rows))


def test_readings_of_cards() -> None:
    card = readings.Card({"uuid": "GPU-1", "index": 0}, True)
    rows = [f"{card.told(0.0)}", f"{readings.judged([card], {}, 3.14)}"]
    for throttle, celsius in ((0, None), (0x4, 40), (0xFF, 80), (0x60, 60), (0x80, 70)):
        card.look_closer(1.5, {"celsius": celsius, "throttle": throttle})
    card.count({"joules": 5, "corrected": 1, "sampled": (0.0, 0.0)})
    card.look(10.0, {"busy": 40, "watts": 50.0, "memory": 7})
    for sampled in ((7.9, 1.0), (8.0, 2.0), None):
        card.look(10.0, {"busy": 40, "watts": None, "memory": None})
        card.count({"joules": 25, "corrected": 4, "uncorrected": 2, "sampled": sampled})
        rows.append(f"{sampled}: {card.busy_s}")
    rows += [f"{card.stranger(1.23456, {'pid': pid, 'user': 'bob'})} {len(card.strangers)}" for pid in (*range(52), 3)]
    card.xids.extend(range(60))
    rows += [f"{card.ours(2.0, pid, memory, 'a')}" for pid, memory in ((9, None), (8, 5), (9, 7))]
    rows.append(f"{card.told(30.0)}")
    rows.append(f"{readings.judged([card], {}, 30.0)}")
    rows += [f"{card.lost(now, 'Xid 79')}" for now in (3.0, 4.0)]
    other = readings.Card({"uuid": "GPU-2", "index": 1, "name": "x"}, False)
    rows += [
        f"{readings.judged(cards, facts, 2.5)}"
        for cards in ([], [card], [other], [other] * 9)
        for facts in (
            {},
            {"trouble": "no driver"},
            {"state": "unmeasured"},
            {"state": "unmeasured", "trouble": "hangs"},
        )
    ]
    rows += [f"{readings.receipt(cards, {'source': 's'}, 2.00049, 7, more=1)}"[:600] for cards in ([], [card, other])]
    other.lost(1.0, "gone")
    rows += [f"{readings.judged([other], {}, 1.0)} {readings.judged([other, card], {}, 1.0)}"]
    rows += [f"{number}: {readings.xid_meaning(number)}" for number in (0, 13, 31, 43, 79, 95, 119, 154, 155)]
    assert_table("readings", rows)


def test_lines_about_the_gpus_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    request = {"run_id": "r", "run_number": 12, "target": "lab 1", "script": "train.py"}
    started = {"type": "started", "wall_ns": 1, "mono_ns": 1, "boot_id": ""}
    extra = {"type": "gpu_held", "holders": [{"pid": pid, "user": "bob", "program": "python"} for pid in range(21)]}
    odd: dict[str, Any] = {
        "index": None,
        "busy_s": -1,
        "xids": [1, "x", 2, 3, 4, 5, 6],
        "ecc": {"uncorrected": True},
        "throttled_s": {"heat": 0, "power": 2},
        "strangers": [5, {"pid": "x"}],
        "used": True,
        "given": 1,
    }
    lists: tuple[list[Any], ...] = (
        [],
        [USE],
        [{**USE, "used": False, "held": True}],
        [USE, {**USE, "index": 1, "used": False, "given": True}],
        [odd],
        [odd, {**odd, "name": "NVIDIA L4", "busy_s": 5, "memory_peak": 5, "energy_j": 3.6e6}],
    )
    (tmp_path / "a1").mkdir()
    rows = []
    for verdict, cards, wish in product(
        (*gpu_receipt.VERDICTS, "odd"), lists, (WISH, None, {"count": 0}, {"require": True})
    ):
        (tmp_path / "a1" / "plan.json").write_text(json.dumps({"gpu": wish}))
        events = [started, {"type": "gpu_receipt", **receipt(verdict, "it says so. ", cards)}]
        run = Run("0" * 32, str(tmp_path), request, events, [])
        rows.append(
            f"{verdict} {len(cards)} {wish and list(wish)}: {gpu_verdict.lines(run, ['advice'] * (wish is WISH))}"
        )
    histories: tuple[list[Any], ...] = (
        [],
        [{"type": "queued"}],
        [started],
        [started, extra],
        [
            started,
            {"type": "gpu_check", "ok": False, "why": "no driver."},
            {"type": "gpu_receipt", **receipt("idle", "x", [USE])},
        ],
        [started, {"type": "gpu_receipt", "gpus": 5}],
    )
    for events in histories:
        (tmp_path / "a1" / "plan.json").write_text(json.dumps({"gpu": WISH}))
        run = Run("0" * 32, str(tmp_path), request, events, [])
        rows += [
            f"{[event['type'] for event in events]}: {gpu_verdict.lines(run)}",
            gpu_verdict.unused_line(run, ("train.py", "torch")),
        ]
    for gpus in ("x", [], ["L4"], ["L4", "L4", 5, "H200"], ["L4"] * 65):
        run = Run("0" * 32, str(tmp_path), request, [{"type": "gpu_unused", "gpus": gpus}, {"type": "odd"}], [])
        rows.append(gpu_verdict.unused_line(run, ("a.py", "jax")))
    rows += [
        answered(gpu_verdict.energy, joules)
        for joules in (0, 1, 3600, 35_000, 358_199, 358_200, 3.6e6 - 1, 3.6e6, 7.77e7)
    ]
    rows += [
        f"{gpu_receipt.read(document)}"
        for document in (
            {},
            {"verdict": 5, "seconds": -1, "samples": 2.9, "gpus": [odd, 5, {"index": 3}], "cpu_percent": 1e24},
        )
    ]
    rows += [answered(gpu_receipt.number, value) for value in (0, -0.1, 9.9e23, 1e24, True, None, "1", float("nan"))]
    assert_table("gpu-lines", rows)


SCRIPT = """import torch
from torch import nn
class Net(nn.Module):
    pass
model = Net()
loader = DataLoader(data, batch_size=4)
"""
SOURCES = {
    "plain": SCRIPT,
    "cpu": SCRIPT + 'device = torch.device("cpu")\n',
    "cuda": SCRIPT + 'model.to("cuda")\n',
    "hidden": 'import os\n# os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n'
    'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\nimport torch\n',
    "tensorflow": 'import tensorflow as tf\nwith tf.device("/cpu:0"):\n    pass\n',
    "workers": SCRIPT.replace("batch_size=4", "batch_size=4, num_workers=0"),
    "two workers": SCRIPT.replace("batch_size=4", "num_workers=2"),
    "by place": SCRIPT.replace("batch_size=4", "1, 2, 3, 4, 5"),
    "options": SCRIPT.replace("batch_size=4", "**more"),
    "lines": SCRIPT.replace("batch_size=4", "\n    batch_size=4,\n").replace("Net()", "Net(\n)"),
    "wide": SCRIPT.replace("batch_size=4", "name='é'"),
    "trailing": SCRIPT.replace("batch_size=4", "batch_size=4, "),
    "sequential": "import torch\nmodel = torch.nn.Sequential(a)\n",
    "resnet": "from torchvision import models\nimport torch\nmodel = models.resnet18()\n",
    "torch only": "import torch\nprint(torch.rand(3))\n",
    "python 2": "import torch\nprint 'x'\n",
    "json": "import json\n",
}


def advised(findings: Iterable[gpu_doctor.Finding]) -> list[str]:
    return [f"{row.where}: {row.what} -> {row.fix}" for row in findings]


def test_how_scripts_use_a_gpu() -> None:
    rows = []
    for name, text in SOURCES.items():
        files = {"a.py": "x = 1\n", "train.py": text}
        rows.append(f"{name}: {script_source.hides_gpus(files)} | {script_source.stays_on_cpu(files)}")
        rows.append(f"{name}: {script_source.unmoved_model(files)} | {script_source.slow_loader(files, 4)}")
    assert_table("script-sources", rows)


def test_advice_on_idle_gpus() -> None:
    declarations: list[dict[str, str]] = [
        *(
            {},
            {"requirements.txt": "numpy\ntorch==2.1.0+cpu  # fast\n"},
            {"requirements.txt": "--index-url https://download.pytorch.org/whl/cpu\ntorch\n"},
            {"c.yml": "dependencies:\n- cpuonly\n- pytorch\n"},
        ),
        *(
            {"c.yml": "dependencies:\n- tensorflow=2.1\n- pip:\n  - x\n"},
            {"c.yml": "dependencies:\n- pip:\n  - tensorflow==2.1\n"},
            {"requirements.txt": "tensorflow>=2,\njax\n"},
            {"pyproject.toml": 'dependencies = [\n  "jax",\n  "tensorflow_cpu==2.1",\n]\n'},
        ),
        *(
            {"lab.runconfig": "EnvironmentVariables:\n  CUDA_VISIBLE_DEVICES: 7\n"},
            {"aml_config/lab.compute": "nvidiaDocker: no\n"},
            {"aml_config/lab.compute": "# nvidiaDocker: no\n"},
        ),
    ]
    checks: list[dict[str, Any] | None] = [None, {"ok": False, "why": "no driver", "fix": "install it"}]
    checks += [
        {"ok": False, "why": "w", "fix": "f", "facts": {**WELL, "devices": [], "visible": visible}}
        for visible in (None, "7")
    ]
    checks += [
        {"ok": True, "facts": {**WELL, "packages": [row], "cuda": cuda}}
        for row in PACKAGES
        for cuda in ("11.4", "12.4")
    ]
    checks += [
        {"ok": True, "facts": {**WELL, "packages": [PACKAGES[0], PACKAGES[2]]}},
        {"ok": True, "facts": {**WELL, "packages": [PACKAGES[0]], "cuda": None, "devices": []}},
    ]
    checks += [
        {"ok": True, "facts": {**WELL, "packages": [PACKAGES[0]], "cuda": "9.0"}},
        {"ok": True, "facts": {**WELL, "packages": [PACKAGES[7], PACKAGES[9]]}},
    ]
    rows = []
    for number, check in enumerate(checks):
        for files in declarations:
            found = gpu_doctor.findings({"verdict": "idle"}, check, files, compute="aml_config/lab.compute")
            rows.append(f"{number} {list(files)}: {advised(found)}")
    for verdict, text in product(("idle", "absent", "", "lost"), SOURCES.values()):
        rows.append(f"{verdict}: {advised(gpu_doctor.findings({'verdict': verdict}, {'facts': WELL}, {'t.py': text}))}")
    assert_table("gpu-advice", dict.fromkeys(rows))


def test_advice_on_starved_gpus() -> None:
    card = {"used": True, "busy_s": 10.0, "context_after_s": 5.0}
    rows = []
    for busy, length, cores, percent, name in product(
        (10.0, 39.9, 40.0), (34.9, 35, 105.0), (None, 1, 2, 16, 64), (0, 5.0, 40, 41, 100), ("plain", "json")
    ):
        document = {
            "verdict": "used",
            "seconds": length,
            "cores": cores,
            "cpu_percent": percent,
            "gpus": [{**card, "busy_s": busy}],
        }
        found = gpu_doctor.findings(document, None, {"t.py": SOURCES[name]})
        rows.append(f"{busy} {length} {cores} {percent} {name}: {gpu_doctor.is_starved(document)} {advised(found)}")
    cards: tuple[list[Any], ...] = (
        [card, {**card, "busy_s": 50.0}],
        [card, {"used": False}, card],
        [{**card, "busy_s": "x"}],
        [{**card, "context_after_s": None}],
        [5, card],
        [],
    )
    for row in cards:
        document = {"verdict": "used", "seconds": 105.0, "cores": 7, "cpu_percent": 90, "gpus": row}
        rows.append(f"{row}: {advised(gpu_doctor.findings(document, None, {'t.py': SCRIPT}))}")
    assert_table("gpu-starved", rows)
