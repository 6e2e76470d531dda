"""One person, one machine: submit, follow, find it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import HOLDFAST, alive, eventually

if TYPE_CHECKING:
    from conftest import Desk


def test_streams_the_log_and_exits_with_the_scripts_code(desk: Desk) -> None:
    desk.script("import sys; print('seen', sys.argv[1:]); sys.exit(7)")
    result = desk.submit("train.py", "--lr", "0.1")
    assert result.code == 7
    lines = result.text.splitlines()
    assert lines[0].startswith("RunId: project_")
    assert lines[1:4] == ["", "Executing user inputs .....", "==========================="]
    assert "seen ['--lr', '0.1']" in lines
    assert lines[-3:-1] == ["Execution Details", "================="]
    assert lines[-1] == lines[0]
    assert "exited with code 7" in result.err
    assert "holdfast info -r 1" in result.err


def test_everything_after_the_script_is_its_own_byte_for_byte(desk: Desk) -> None:
    desk.script("import os, sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))")
    words = ["-h", "--dry-run", "--", "", "a b", "é", os.fsdecode(b"\xff\xfe"), "$(x)", "*", "-o", "json", "'\""]
    result = desk.submit("train.py", *words)
    assert b"|".join(map(os.fsencode, words)) in result.out
    assert desk.record()["arguments"] == words


def test_a_very_last_wait_is_still_understood(desk: Desk) -> None:
    desk.script("import sys; print(sys.argv[1:])")
    assert "['x']" in desk.submit("train.py", "x", "--wait").text
    assert "['x', '--wait']" in desk.submit("--", "train.py", "x", "--wait").text


def test_no_wait_prints_the_id_and_returns_before_the_script_ends(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    desk.script(f"print('waiting', flush=True); open({str(gate)!r}).read(); print('done')")
    result = desk.submit("--no-wait", "train.py")
    assert result.code == 0
    assert result.text.startswith("RunId: ")
    assert desk.record()["status"] in ("Preparing", "Running")
    gate.write_text("go")
    assert desk.wait_for_end()["status"] == "Completed"
    assert desk.holdfast("logs").out == b"waiting\ndone\n"


def test_dry_run_prints_the_plan_and_touches_nothing(desk: Desk) -> None:
    desk.script("print(1)")
    before = sorted(desk.project.rglob("*"))
    plan = desk.submit("--dry-run", "train.py", "--lr", "1").json
    assert plan["argv"] == ["python", "train.py", "--lr", "1"]
    assert len(plan["tree"]) == 64
    assert sorted(desk.project.rglob("*")) == before
    assert not desk.home.exists()
    assert list(desk.user_home.iterdir()) == []


def test_the_plan_of_a_dry_run_is_the_plan_that_is_followed(desk: Desk) -> None:
    desk.script("print(1)")
    planned = desk.submit("--dry-run", "-e", "A=1", "train.py").json
    desk.submit("-e", "A=1", "train.py")
    kept = json.loads((desk.attempt() / "plan.json").read_text())
    for name in ("argv", "env", "links", "script", "share", "grace", "timeout", "max_log", "target", "attempt"):
        assert kept[name] == planned[name]


def test_any_old_folder_becomes_a_project_on_first_use(desk: Desk) -> None:
    desk.script("print(1)")
    desk.submit("train.py")
    first = desk.record()
    desk.submit("train.py")
    second = desk.record()
    assert (first["run_number"], second["run_number"]) == (1, 2)
    assert first["experiment_id"] == second["experiment_id"]
    assert json.loads((desk.project / ".holdfast-project").read_text())["id"] == first["experiment_id"]


def test_a_script_in_a_subfolder_runs_at_the_projects_root_with_its_siblings_importable(desk: Desk) -> None:
    desk.script("value = 42", "code/helper.py")
    desk.script(
        "import os, helper; print(helper.value, os.path.basename(os.getcwd()), os.listdir('.'))", "code/main.py"
    )
    desk.script("", "root.py")
    assert desk.submit("--dry-run", "root.py").code == 0
    desk.submit("root.py")  # makes the folder a project, so that it is found from below
    for cwd, name in (
        (desk.project, "code/main.py"),
        (desk.project, r"code\main.py"),
        (desk.project / "code", "main.py"),
    ):
        result = desk.submit(name, cwd=cwd)
        assert "42 work" in result.text, result


def test_the_script_runs_in_a_copy_and_cannot_change_the_project(desk: Desk) -> None:
    desk.script("open('train.py', 'w').write('changed'); open('new.txt', 'w'); print('ran')")
    (desk.project / "data.bin").write_bytes(b"original")
    assert desk.submit("train.py").code == 0
    assert "ran" in (desk.project / "train.py").read_text()
    assert not (desk.project / "new.txt").exists()


def test_outputs_exist_beforehand_and_are_collected_wherever_the_script_goes(desk: Desk) -> None:
    desk.script(
        "import os\n"
        "assert os.path.isdir('outputs')\n"
        "home = os.getcwd()\n"
        "os.chdir('/')\n"
        "open(os.path.join(home, 'outputs', 'model.bin'), 'wb').write(b'12345')\n"
        "os.makedirs(os.path.join(home, 'outputs', 'deep', 'er'))\n"
        "open(os.path.join(home, 'outputs', 'deep', 'er', 'x'), 'w').write('x')\n"
    )
    (desk.project / "outputs").mkdir()
    (desk.project / "outputs" / "old.txt").write_text("from before")
    assert desk.submit("train.py").code == 0
    record = desk.record()
    assert record["attachments"] == "control_log, driver_log, outputs/deep/er/x, outputs/model.bin"
    assert (desk.attempt() / "outputs" / "model.bin").read_bytes() == b"12345"
    assert not (desk.attempt() / "workspace").exists()
    assert desk.holdfast("experiment", "return", "-r", "1").code == 0
    assert (desk.project / "outputs" / "deep" / "er" / "x").read_text() == "x"
    assert (desk.project / "outputs" / "old.txt").read_text() == "from before"


def test_the_environment_is_not_copied_but_asked_for(desk: Desk) -> None:
    desk.script("import os, json; print(json.dumps(dict(os.environ)))")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.runconfig").write_text(
        "Target: local\nFramework: Python\nEnvironmentVariables:\n  FROM_CONFIG: 1\n  BOTH: config\n"
    )
    (desk.project / "aml_config" / "local.compute").write_text(
        "type: local\nnativeSharedDirectory: ~/.azureml/share/\n"
    )
    env_file = desk.user_home / "vars"
    env_file.write_text("# a comment\nFROM_FILE='quoted value'\nexport BOTH=file\n")
    more = ("-e", "HANDED", "-e", "SET=a=b", "--env-file", str(env_file), "--secret", "TOKEN")
    env = {"HANDED": "on", "CANARY": "must not be seen", "TOKEN": "s3cr3t-value"}
    result = desk.submit(*more, "train.py", env=env)
    found = json.loads(next(line for line in result.text.splitlines() if line.startswith("{")))
    assert found["HANDED"] == "on"
    assert found["SET"] == "a=b"
    assert found["FROM_CONFIG"] == "1"
    assert found["FROM_FILE"] == "quoted value"
    assert found["BOTH"] == "file"
    assert found["TOKEN"] == "s3cr3t-value"
    assert found["PYTHONUNBUFFERED"] == "1"
    assert "CANARY" not in found
    assert "HOLDFAST_HOME" not in found
    share = found["AZUREML_NATIVE_SHARE_DIRECTORY"]
    assert share.endswith("/project/")
    assert Path(share).is_dir()


def test_shared_folder_is_made_only_where_a_compute_file_names_it(desk: Desk) -> None:
    desk.script("import os; print('AZUREML_NATIVE_SHARE_DIRECTORY' in os.environ)")
    assert "False" in desk.submit("train.py").text
    assert not (desk.user_home / ".azureml").exists()


def test_values_given_to_a_script_are_kept_nowhere(desk: Desk) -> None:
    desk.script("import os; assert os.environ['TOKEN'] and os.environ['PLAIN']")
    env = {"TOKEN": "canary-5e1f", "WEBHOOK": "x"}
    desk.submit("--secret", "TOKEN", "-e", "PLAIN=canary-77aa", "--notify", "true canary-cc21", "train.py", env=env)
    desk.wait_for_end()
    for path in desk.home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"canary-" not in content, path


def test_a_missing_variable_is_said_before_anything_happens(desk: Desk) -> None:
    desk.script("")
    result = desk.submit("-e", "NOT_THERE", "train.py")
    assert result.code == 2
    assert result.err.startswith("ERROR: -e NOT_THERE: NOT_THERE is not set in this shell")
    result = desk.submit("--env", "projct", "train.py")
    assert (result.code, "did you mean --env project?" in result.err) == (2, True)
    assert not desk.home.exists()


def test_link_shows_a_folder_without_copying_it(desk: Desk) -> None:
    desk.script("import os; print(open('data/x.csv').read(), os.path.islink('data'), open('other/y').read())")
    (desk.project / "data").mkdir()
    (desk.project / "data" / "x.csv").write_text("1,2,3")
    elsewhere = desk.user_home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "y").write_text("why")
    (desk.project / ".gitignore").write_text("data/\n")
    result = desk.submit("--link", "data", "--link", f"other={elsewhere}", "train.py")
    assert "1,2,3 True why" in result.text, result.err


def test_links_of_the_run_configuration_are_made_too(desk: Desk) -> None:
    desk.script("print(open('data/x').read())")
    (desk.project / "data").mkdir()
    (desk.project / "data" / "x").write_text("linked")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.runconfig").write_text("Target: local\nFramework: Python\nlinks:\n- data\n")
    result = desk.submit("train.py")
    assert "linked" in result.text
    assert json.loads((desk.attempt() / "plan.json").read_text())["links"][0]["name"] == "data"


def test_a_file_that_an_ignore_rule_left_out_is_named_with_its_rule(desk: Desk) -> None:
    desk.script("open('data/x.csv')")
    (desk.project / "data").mkdir()
    (desk.project / "data" / "x.csv").write_text("1")
    (desk.project / ".gitignore").write_text("# big things\ndata/\n")
    result = desk.submit("train.py")
    assert result.code == 1
    assert "data/x.csv" in result.err
    assert ".gitignore:2" in result.err
    assert "--link data" in result.err


def test_an_interpreter_that_is_not_there_is_told_in_words(desk: Desk) -> None:
    desk.script("")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text("type: local\npythonLocation: /no/such/python\n")
    result = desk.submit("train.py")
    assert result.code == 127
    assert "/no/such/python" in result.err
    assert desk.record()["status"] == "Failed"


def test_the_end_by_a_signal_is_told_in_words(desk: Desk) -> None:
    desk.script("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    result = desk.submit("train.py")
    assert result.code == 128 + signal.SIGSEGV
    assert "SIGSEGV" in result.err
    assert desk.record()["status"] == "Failed"


def test_ctrl_c_detaches_and_the_run_goes_on(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    desk.script(f"print('up', flush=True); open({str(gate)!r}).read(); print('finished')")
    with desk.start("submit", "-c", "local", "train.py", start_new_session=True) as client:
        assert client.stdout is not None
        while b"up" not in client.stdout.readline():
            pass
        os.killpg(client.pid, signal.SIGINT)
        _, err = client.communicate(timeout=30)
    assert client.returncode == 130
    assert b"\nstopped following the log; the run continues\n" in err
    assert b"holdfast logs -f -r project_" in err
    assert desk.record()["status"] == "Running"
    with desk.start("logs", "-f", "-r", "last") as second:
        gate.write_text("go")
        out, _ = second.communicate(timeout=30)
    assert out == b"up\nfinished\n"
    assert second.returncode == 0


def test_run_that_ended_without_a_watching_client_is_recorded(desk: Desk, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    desk.script(f"open({str(gate)!r}).read(); raise SystemExit(3)")
    with desk.start("submit", "-c", "local", "train.py") as client:
        assert client.stdout is not None
        client.stdout.readline()
        eventually(lambda: desk.record()["status"] == "Running")
        client.kill()
    gate.write_text("go")
    assert desk.wait_for_end()["exit_code"] == 3


def test_cancel_ends_the_whole_tree_daemons_and_stubborn_ones_included(desk: Desk, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    desk.script(
        f"""
import os, signal, sys, time
def note(): open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')
note()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note(); sys.stdout.close(); time.sleep(600)
    os._exit(0)
os.wait()
if os.fork() == 0:
    note(); time.sleep(600)
open({str(pids)!r}, 'a').write('ready\\n')
time.sleep(600)
"""
    )
    desk.submit("--no-wait", "--grace", "1s", "train.py")
    eventually(lambda: pids.exists() and pids.read_text().count("\n") == 4)
    found = [int(line) for line in pids.read_text().split() if line.isdigit()]
    result = desk.holdfast("experiment", "cancel", "-r", "last")
    assert result.code == 0
    record = desk.wait_for_end()
    assert record["status"] == "Canceled"
    assert not any(alive(pid) for pid in found)
    assert [event["type"] for event in desk.events()].count("killed") == 1


def test_cancel_lets_a_script_end_by_itself_within_its_grace(desk: Desk) -> None:
    desk.script(
        "import signal, sys, time\n"
        "def end(*_): print('saving', flush=True); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    desk.submit("--no-wait", "train.py")
    eventually(lambda: b"ready" in desk.holdfast("logs").out)
    desk.holdfast("cancel")
    record = desk.wait_for_end()
    assert record["status"] == "Canceled"
    assert desk.holdfast("logs").out == b"ready\nsaving\n"


def test_timeout_ends_a_run_with_124(desk: Desk) -> None:
    desk.script("import time; print('up', flush=True); time.sleep(600)")
    result = desk.submit("--timeout", "1s", "train.py")
    assert result.code == 124
    assert "timed out after 1s" in result.err
    assert desk.record()["status"] == "Failed"


def test_what_a_script_leaves_running_ends_with_it(desk: Desk, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os,time; open({str(pid_file)!r},'w').write(str(os.getpid())); time.sleep(600)"
    desk.script(
        "import subprocess, sys, os, time\n"
        f"subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(pid_file)!r}) or not open({str(pid_file)!r}).read(): time.sleep(0.01)\n"
    )
    assert desk.submit("train.py").code == 0
    assert not alive(int(pid_file.read_text()))
    assert any(event["type"] == "leftovers" for event in desk.events())


def test_notify_runs_a_command_when_a_detached_run_ends(desk: Desk, tmp_path: Path) -> None:
    told = tmp_path / "told"
    desk.script("raise SystemExit(4)")
    desk.submit(
        "--no-wait", "--notify", f'echo "$HOLDFAST_RUN_ID $HOLDFAST_STATUS $HOLDFAST_EXIT_CODE" > {told}', "train.py"
    )
    eventually(lambda: told.exists() and told.read_text().endswith("\n"))
    assert told.read_text() == f"{desk.record()['run_id']} Failed 4\n"


def test_notify_posts_to_a_url_set_by_the_user(desk: Desk, tmp_path: Path) -> None:
    received = tmp_path / "received"
    server = (
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        f"        open({str(received)!r}, 'wb').write(self.rfile.read(int(self.headers['Content-Length'])))\n"
        "        self.send_response(204); self.end_headers()\n"
        "    def log_message(self, *a): pass\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), H); print(s.server_port, flush=True); s.handle_request()\n"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as web:
        assert web.stdout is not None
        desk.holdfast("config", "onEnd", f"http://127.0.0.1:{web.stdout.readline().strip()}/hook")
        desk.script("print(1)")
        desk.submit("train.py")
        assert web.wait(30) == 0
    posted = json.loads(received.read_text())
    assert posted["status"] == "Completed"
    assert posted["text"] == f"{posted['run_id']} completed: train.py"


def test_a_cloned_project_cannot_set_what_runs_at_the_end(desk: Desk, tmp_path: Path) -> None:
    told = tmp_path / "told"
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.runconfig").write_text(
        f"Target: local\nFramework: Python\nonEnd: touch {told}\nnotify: touch {told}\n"
    )
    desk.script("print(1)")
    assert desk.submit("train.py").code == 0
    eventually(lambda: not (desk.attempt() / "workspace").exists())
    assert not told.exists()


def test_a_run_may_call_holdfast_itself(desk: Desk) -> None:
    desk.script("print('inner')", "inner.py")
    desk.script(
        "import subprocess, holdfast\n"
        "holdfast.log('outer', 1)\n"
        f"subprocess.run([{str(HOLDFAST)!r}, 'submit', '-c', 'local', 'inner.py'], check=True)\n"
    )
    result = desk.submit("-e", f"HOLDFAST_HOME={desk.home}", "train.py")
    assert result.code == 0, result
    assert "inner" in result.text
    records = desk.holdfast("history", "list", "--all", "-o", "json").json
    inner = next(record for record in records if record["script_name"] == "inner.py")
    outer = next(record for record in records if record["script_name"] == "train.py")
    assert inner["parent_run_id"] == outer["run_id"]


def test_more_than_a_gigabyte_is_shown_and_refused_without_a_yes(desk: Desk) -> None:
    desk.script("print('ran')")
    for name, size in (("forgotten.bin", 1_100_000_000), ("small.bin", 1000)):
        with open(desk.project / name, "wb") as sparse:
            sparse.truncate(size)
    result = desk.submit("train.py")
    assert result.code == 2
    assert "1.1 GB of new files" in result.err
    assert result.err.index("forgotten.bin") < result.err.index("small.bin")
    assert "--link" in result.err
    assert not list((desk.home / "runs").glob("*"))
    assert sum(path.stat().st_size for path in desk.home.rglob("*") if path.is_file()) < 1_000_000


def test_where_there_is_only_a_python3_it_is_used_and_named(desk: Desk, tmp_path: Path) -> None:
    only = tmp_path / "only"
    only.mkdir()
    (only / "python3").symlink_to(Path(sys.executable).resolve())
    desk.script("print('ran')")
    result = desk.submit("train.py", env={"PATH": f"{only}:/nowhere"})
    assert "ran" in result.text, result
    assert desk.record()["program"] == str(Path(sys.executable).resolve())
    assert b"runs 'train.py'" in desk.holdfast("history", "info", "-a", "control_log").out


def test_files_of_configurations_and_targets_say_what_was_meant(desk: Desk) -> None:
    desk.script("import sys; print('plain', *sys.argv[1:])", "plain.py")
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "own.compute").write_text("type: local\n")
    (config / "own.runconfig").write_text("Target: own\nArgumentVector:\n- plain.py\n- from the file\n")
    assert desk.holdfast("submit", "own.runconfig").code == 0
    assert desk.holdfast("logs", "-r", "1").text == "plain from the file\n"
    assert desk.holdfast("submit", "aml_config/own.runconfig", "plain.py", "typed").code == 0
    assert desk.holdfast("logs", "-r", "2").text == "plain typed\n"
    for command, meant in (
        (("submit", "own.compute", "plain.py"), "try: holdfast submit -c own plain.py"),
        (("submit", "-c", "own.runconfig", "plain.py"), "try: did you mean -c own? known: "),
        (("submit", "-c", "locla", "plain.py"), "try: did you mean -c local? known: "),
    ):
        refused = desk.holdfast(*command)
        assert (refused.code, meant in refused.err) == (2, True), refused
    assert len(desk.holdfast("runs", "-o", "json").json) == 2
