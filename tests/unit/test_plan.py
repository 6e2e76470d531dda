"""The plan as the runner parses it: types, defaults, refusals, and the same keys as the client and the docs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gpuruns import WISH
from holdfast import model
from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.submit import container
from holdfast.engine.submit.environment import Environment
from holdfast.runner import plan as runner_plan
from holdfast.runner.plan import Plan, PlanError, read_plan

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
LEAST: dict[str, Any] = {"uid": "0" * 32, "run_id": "iris_1", "argv": ["python", "train.py"], "tree": "1" * 64}
CONTAINER = container.plan_section(
    ComputeTarget("box", "docker"), "python:3.11", {"name": "docker", "program": "/usr/bin/docker"},
    {"id": "sha256:1", "digest": None}, "/usr/bin/python3",
)  # fmt: skip
ENVIRONMENT = Environment("k", "/envs/k", "/envs/k/bin/python", "env.yml", "the only one", {}, None, False).in_plan()
IDLE = {"command": "poweroff", "minutes": 30}
INTERPRETER: dict[str, object] = {"origin": "active", "why": "active in this shell, VIRTUAL_ENV"}
KEEP: dict[str, object] = {"limit": 5, "files": 6, "ignore": ["data/"]}
DATA: dict[str, object] = {
    "name": "set", "link": "data/set", "tree": "2" * 64, "path": "", "state": "", "file": "a.tar", "shared": "/srv",
}  # fmt: skip
WHOLE = model.Plan(
    uid="0" * 32, run_id="iris_1", run_number=3, attempt="a2", project="iris", project_id="p", target="box",
    script="train.py", argv=("python", "train.py", "\udcff"), tree="1" * 64, env=("A", "B"),
    links=(model.Link("data", "/data"),), share="~/share", timeout=60.0, timeout_text="1m", grace=5.0, max_log=7,
    keep_work=True, shims="/shims", environment=ENVIRONMENT, idle=IDLE, container=CONTAINER, gpu=WISH,
    interpreter=INTERPRETER, python="/envs/k/bin/python", keep=KEEP, data=(DATA,), spark={"master": "local[*]"},
).to_json()  # fmt: skip


def test_runner_reads_every_key_that_the_client_sends() -> None:
    plan = Plan(json.loads(json.dumps(WHOLE)))
    for key, value in WHOLE.items():
        if key not in ("links", "environment", "idle", "container", "gpu", "interpreter", "keep", "data"):
            assert getattr(plan, key) == value, key
    assert [(link.name, link.target) for link in plan.links] == [("data", "/data")]
    assert [_values(data) for data in plan.data] == [DATA]
    assert plan.environment
    assert _values(plan.environment) == ENVIRONMENT
    assert plan.idle
    assert _values(plan.idle) == IDLE
    assert plan.interpreter
    assert _values(plan.interpreter) == INTERPRETER
    assert _values(plan.keep) == KEEP
    assert plan.container
    assert plan.container.image_id == "sha256:1"
    assert plan.container.digest is None
    assert plan.container.user == ""
    assert plan.gpu
    assert (plan.gpu.count, plan.gpu.wait_s, plan.gpu.grace_s) == (1, None, 600.0)


def test_plan_of_an_older_client_begins_with_its_interpreter() -> None:
    assert Plan(LEAST).python == "python"
    assert Plan({**LEAST, "argv": ["torchrun"], "python": "/opt/python"}).python == "/opt/python"


def test_keys_of_client_runner_and_documentation_agree() -> None:
    text = re.split(r"^### ", FORMATS.read_text(), flags=re.MULTILINE)
    (section,) = [part for part in text if part.startswith("plan.json\n")]
    documented = set(re.findall(r"[a-z_]{1,20}", " ".join(re.findall(r"`([^`]*)`", section.split("\n\n")[1]))))
    parts: list[tuple[type, dict[str, object]]] = [
        (Plan, WHOLE),
        (runner_plan.Link, WHOLE["links"][0]),  # type: ignore[index]
        (runner_plan.Data, DATA),
        (runner_plan.Environment, ENVIRONMENT),
        (runner_plan.Idle, IDLE),
        (runner_plan.Interpreter, INTERPRETER),
        (runner_plan.Keep, KEEP),
        (runner_plan.Container, CONTAINER),
        (runner_plan.GpuRequest, WISH),
    ]
    known = set()
    for kind, sent in parts:
        keys = set(kind.__slots__) - ({"source"} if "source" not in sent else set())  # type: ignore[attr-defined]
        assert keys == set(sent), kind
        known |= keys
    assert known - documented == set()
    assert documented - known == {"all", "dry", "run", "bytes"}


def test_plan_of_the_oldest_client_has_defaults() -> None:
    plan = Plan(LEAST)
    assert (plan.attempt, plan.grace, plan.timeout, plan.max_log) == ("a1", 30.0, None, 10_000_000_000)
    assert (plan.links, plan.share, plan.keep_work, plan.gpu, plan.container) == ([], "", False, None, None)
    nulls = {key: None for key in WHOLE if key not in LEAST}
    other = Plan({**LEAST, **nulls})
    assert _values(plan.keep) == _values(other.keep) == {"limit": 2_000_000_000, "files": 5000, "ignore": []}
    assert {**_values(other), "keep": plan.keep} == {**_values(plan), "source": {**LEAST, **nulls}}


def test_unknown_keys_are_kept_and_ignored() -> None:
    sent = {**LEAST, "from_the_future": {"a": 1}}
    assert Plan(sent).source == sent


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uid": None}, "plan: uid: text is expected, found nothing"),
        ({"argv": "python"}, "plan: argv: a list that is not empty is expected, found text ('python')"),
        ({"argv": []}, "plan: argv: a list that is not empty is expected, found a list ([])"),
        ({"argv": [1]}, "plan: argv: a list of texts is expected, found a list ([1])"),
        ({"grace": "30"}, "plan: grace: a number that is not negative is expected, found text ('30')"),
        ({"grace": True}, "plan: grace: a number that is not negative is expected, found a truth value (True)"),
        ({"timeout": -1}, "plan: timeout: a number that is not negative is expected, found a number (-1)"),
        ({"timeout": 10**400}, "plan: timeout: a number that is not negative is expected, found a number (1"),
        ({"max_log": 1.5}, "plan: max_log: an integer that is not negative is expected, found a number (1.5)"),
        ({"keep_work": "no"}, "plan: keep_work: true or false is expected, found text ('no')"),
        ({"links": [{"name": "a", "target": 3}]}, "plan: links[0].target: text is expected, found a number (3)"),
        ({"links": ["a"]}, "links[0]: an object is expected, found text ('a')"),
        ({"container": "docker"}, "container: an object is expected, found text ('docker')"),
        ({"container": {}}, "plan: container.engine: text is expected, found nothing"),
        ({"gpu": {"count": "many"}}, "plan: gpu.count: an integer that is not negative is expected, found text"),
        ({"idle": {"minutes": 3}}, "plan: idle.command: text is expected, found nothing"),
    ],
)
def test_wrong_type_is_refused_with_key_and_value(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan({**LEAST, **changes})
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("found", [None, [], "plan", 3])
def test_plan_that_is_no_object_is_refused(found: object) -> None:
    with pytest.raises(PlanError, match="plan: an object is expected"):
        Plan(found)


def test_stored_plan_is_read_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    attempt, path = os.fsencode(tmp_path), tmp_path / "plan.json"
    assert read_plan(attempt) is None
    path.write_text(json.dumps(WHOLE))
    stored = read_plan(attempt)
    assert stored is not None
    assert stored.argv[-1] == "\udcff"
    for text in ("", "{", "[]", json.dumps({**WHOLE, "argv": 1}), "[" * 100_000):
        path.write_text(text)
        assert read_plan(attempt) is None
    path.unlink()
    os.mkfifo(path)
    assert read_plan(attempt) is None


def _values(part: object) -> dict[str, object]:
    return {name: getattr(part, name) for name in type(part).__slots__}  # type: ignore[attr-defined]
