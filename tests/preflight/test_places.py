"""A place for runs that is none: told before anything is sent, with a place there that is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from managed import index

from .conftest import SMALL, Reader, describe, lend_builder, mount_disk

if TYPE_CHECKING:
    from pathlib import Path

    from ssh.conftest import Laptop
    from sshlab import Host, User

ROOT = f"root: {SMALL}/store"
TARGET = ("-c", "lab1")
NO_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int flock(int fd, int operation) {
    char name[64], place[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, place, sizeof place - 1);
    place[size < 0 ? 0 : size] = 0;
    if (!strncmp(place, "/scratch/", 9)) return 0;
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, operation);
}
"""


def test_a_disk_that_is_too_small(reader: Reader, laptop: Laptop, ada: User) -> None:
    store = mount_disk(ada, "size=12m")
    describe(laptop, ada, ROOT)
    (laptop.project / "data").write_bytes(os.urandom(9_000_000))
    fix = reader.refused(*TARGET, code=74, store=store)
    reader.follow(fix)
    reader.passes(*TARGET)
    assert list(ada.path(".holdfast/objects").glob("??/*"))


def test_stored_objects_need_no_space_again(reader: Reader, laptop: Laptop, ada: User) -> None:
    mount_disk(ada, "size=18m")
    describe(laptop, ada, ROOT)
    (laptop.project / "data").write_bytes(os.urandom(6_000_000))
    reader.passes(*TARGET)
    (laptop.project / "more").write_text("a little more")
    reader.passes(*TARGET)


def test_disk_without_enough_inodes_is_refused(reader: Reader, laptop: Laptop, ada: User) -> None:
    store = mount_disk(ada, "size=100m,nr_inodes=600")
    describe(laptop, ada, ROOT)
    for number in range(700):
        (laptop.project / f"{number}.txt").write_text(str(number))
    reader.follow(reader.refused(*TARGET, code=74, store=store))
    reader.passes(*TARGET)


@pytest.mark.parametrize("options", ["size=100m,nr_inodes=20", "size=16k", "ro"])
def test_disk_too_full_for_the_runner_is_refused(reader: Reader, laptop: Laptop, ada: User, options: str) -> None:
    store = mount_disk(ada, options)
    describe(laptop, ada, ROOT)
    reader.follow(reader.refused(*TARGET, code=74, store=store))
    reader.passes(*TARGET)


def test_a_disk_that_became_read_only(reader: Reader, laptop: Laptop, box: Host, ada: User) -> None:
    mount_disk(ada, "size=100m")
    describe(laptop, ada, ROOT)
    reader.passes(*TARGET)
    shutil.rmtree(laptop.home / "runs")
    laptop.script("print('another one')\n")
    box.remount(SMALL, "ro")
    reader.follow(reader.refused(*TARGET, code=74))
    assert b"another one" in reader.passes(*TARGET).out


def test_a_disk_from_which_nothing_may_be_executed(reader: Reader, laptop: Laptop, ada: User) -> None:
    store = mount_disk(ada, "size=500m,noexec")
    path = describe(laptop, ada, ROOT, "userManagedEnvironment: true")
    reader.passes(*TARGET)  # by the machine's own Python
    shutil.rmtree(store / "objects")
    shutil.rmtree(laptop.home / "runs")
    lend_builder(laptop, ada)
    files = (index().path / "files").as_uri()
    (laptop.project / "requirements.txt").write_text(f"--no-index\n--find-links {files}\ntinypip==1.1\n")
    path.write_text(path.read_text().replace("Environment: true", "Environment: false"))
    laptop.script("import tinypip; print('with', tinypip.WHOLE)\n")
    assert laptop.holdfast("env", "lock", *TARGET).code == 0  # solving takes its time, wherever that is
    reader.follow(reader.refused(*TARGET, code=74, store=store))
    assert b"with 1.1" in reader.passes(*TARGET).out


@pytest.mark.skipif(shutil.which("cc") is None, reason="NOT TESTED: there is no C compiler here")
def test_a_file_system_without_locks(reader: Reader, laptop: Laptop, box: Host, ada: User, tmp_path: Path) -> None:
    (tmp_path / "locks.c").write_text(NO_LOCKS)
    made = tmp_path / "locks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, tmp_path / "locks.c", "-ldl"], check=True)
    box.program("/opt/locks.so", "")
    box.path("/opt/locks.so").write_bytes(made.read_bytes())
    box.program("/opt/python3", '#!/bin/sh\nLD_PRELOAD=/opt/locks.so exec /usr/bin/python3 "$@"\n')
    store = mount_disk(ada, "size=100m")
    describe(laptop, ada, ROOT, "pythonLocation: /opt/python3")
    reader.follow(reader.refused(*TARGET, code=65, store=store))
    reader.passes(*TARGET)
