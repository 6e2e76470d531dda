"""Attaches a machine in the browser: its host key is shown before anything is sent, and the password is used once."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING

from ssh.conftest import PASSWORD
from web.client import Server

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User


def test_machine_is_attached_tested_and_used_in_the_browser(laptop: Laptop, gpu1: Host, ada: User) -> None:
    assert ada.name == "ada"
    server = Server(laptop, "--socket").sign_in()
    try:
        made = server.post("/add-folder", {"folder": str(laptop.project)})
        project = made.headers["location"].rpartition("/")[2]
        fields = {"project": project, "kind": "remote", "address": "ada@gpu1.lab", "name": "lab1", "port": ""}
        page = html.unescape(server.post("/attach", fields).text)
        assert gpu1.fingerprint("ed25519") in page
        key = re.search(r'name="key" value="([^"]+)"', page)
        assert key
        other = key[1][:-8] + "AAAAAAAA"
        assert server.post("/attach", {**fields, "key": other, "password": PASSWORD}).status == 400
        wrong = server.post("/attach", {**fields, "key": key[1], "password": "wrong"})
        assert wrong.status == 400
        assert "wrong" not in re.sub(r"<[^>]+>", "", wrong.text).split()
        assert not (laptop.project / "aml_config" / "lab1.compute").exists()
        done = server.post("/attach", {**fields, "key": key[1], "password": PASSWORD})
        assert done.status == 303, html.unescape(done.text)[-600:]
        assert done.headers["location"].startswith("/targets?project=")
        answer = server.post(f"/projects/{project}/targets/lab1/check", {})
        states = {tick["name"]: tick["state"] for tick in map(json.loads, answer.text.splitlines())}
        assert states["host key"] == states["login"] == states["python"] == "ok"
        laptop.script("import socket; print('on', socket.gethostname())")
        ask = {"script": "train.py", "config": "lab1"}
        assert server.post(f"/projects/{project}/preflight", ask).json["ticks"][0]["state"] == "ok"
        started = server.post(f"/projects/{project}/submit", {**ask, "ticket": "t1"})
        assert started.status == 303, html.unescape(started.text)[-600:]
        assert laptop.wait_for_end("last")["status"] == "Completed"
        assert b"on gpu1" in server.get(f"{started.headers['location']}/log.txt").body
        for path in laptop.home.rglob("*"):
            assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    finally:
        server.stop()


def test_target_that_does_not_answer_shows_old_data_and_no_end(attached: Laptop, lab: Lab, gpu1: Host) -> None:
    attached.script("import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n")
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    server = Server(attached, "--socket").sign_in()
    try:
        assert attached.record("last")["status"] == "Running"
        assert "does not answer" not in server.get("/jobs").text
        lab.cut(gpu1, how="reset")
        attached.holdfast("history", "list")  # asks the target, as an open page does
        uid = attached.record("last")["uid"]
        job = next(job for job in server.get("/jobs.json").json if job["uid"] == uid)
        assert (job["status"], job["unreachable"]) == ("Running", True)
        page = html.unescape(server.get("/jobs").text)
        assert "does not answer" in page
        assert "age of the data:" in page
        for path in ("/jobs", f"/runs/{uid}"):
            text = server.get(path).text
            assert "Running" in text
            assert not any(end in text for end in ("Completed", "Failed", "Lost", "Canceled")), path
        assert "the state as last seen" in server.get(f"/runs/{uid}").text
        lab.heal(gpu1)
        assert attached.holdfast("cancel").code == 0
    finally:
        server.stop()
