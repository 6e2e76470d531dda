"""Notifies the user that a run has ended (setting ``onEnd``), by a command or an HTTP POST."""

import os

from ..signals import signal

MYPY = False
if MYPY:
    from ..plan import Plan

LIMIT_S = 60


def notify(target: "str", plan: "Plan", outcome: "str", exit_code: "int", reason: "str") -> "str":
    """Notify, and return the result as text; a failed notification never fails a run."""
    facts = {
        "run_id": plan.run_id,
        "run_number": plan.run_number,
        "status": outcome.capitalize(),
        "exit_code": exit_code,
        "reason": _plain(reason),
        "script_name": _plain(plan.script),
        "text": _text(plan, outcome, reason),
    }  # type: dict[str, object]
    try:
        return _post(target, facts) if target.startswith(("http://", "https://")) else _command(target, facts)
    except Exception as error:
        return "failed: %s" % error


def _text(plan: "Plan", outcome: "str", reason: "str") -> "str":
    """One line for chat services: Slack, Mattermost and Teams show the field ``text`` of what is posted."""
    return _plain("%s %s: %s%s" % (plan.run_id, outcome, plan.script, " (%s)" % reason if reason else ""))


def _plain(text: "str") -> "str":
    """Without what acts on a terminal or misleads the eye; a variable can hold no NUL at all."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def _command(command: "str", facts: "dict[str, object]") -> "str":
    import subprocess

    env = dict(os.environ)
    env.update(("HOLDFAST_" + name.upper(), "" if value is None else str(value)) for name, value in facts.items())
    started = subprocess.Popen(["/bin/sh", "-c", command], env=env, cwd=os.path.expanduser("~"), start_new_session=True)
    try:
        return "command ended with code %d" % started.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        return "command was ended after %d s" % LIMIT_S


def _post(url: "str", facts: "dict[str, object]") -> "str":
    import json
    import urllib.request

    body = json.dumps(facts).encode("utf-8")
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
        return "was answered with %d" % reply.status
