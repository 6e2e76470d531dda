"""Names of the files and folders of a store: each is written down here and nowhere else (docs/formats.md).

``layout.events(attempt)`` is the path of that file, bytes or text as the folder is; ``layout.events.name`` its name.
"""

import os

MYPY = False
if MYPY:
    from typing import AnyStr


class Place:
    """A file or folder that has the same name in every folder of its kind."""

    def __init__(self, *names: "str") -> "None":
        self.name = "/".join(names)
        self._text = os.path.join(*names)
        self._encoded = self._text.encode("ascii")

    def __call__(self, folder: "AnyStr") -> "AnyStr":
        return os.path.join(folder, self._encoded if isinstance(folder, bytes) else self._text)


# In a store.
identity = Place("store.json")
settings = Place("settings.json")
targets = Place("targets")
templates = Place("templates")
objects = Place("objects")
runners = Place("runner")
environments = Place("envs")
solved = Place("solved")
data = Place("data")
data_objects = Place("data", "objects")
builder = Place("builder")
builder_lock = Place("builder", "lock")
runs = Place("runs")
trash = Place("trash")
saved = Place("saved")
clock = Place("clock")
clients = Place("clients")
idle = Place("idle")
idle_log = Place("idle.log")
ssh = Place("ssh")
assets = Place("assets.jsonl")
trust = Place("trust.json")
old_trust = Place("trusted.json")
agent = Place("agent.jsonl")
ui = Place("ui")
shims = Place("shims")
shims_of_runs = Place("shims", "run")
numbers = Place("numbers")
locks = Place("locks")
index = Place("index.sqlite")
cache = Place("cache")
packages = Place("cache", "packages")
runner_digest = Place("cache", "runner")
interpreters = Place("cache", "interpreters.jsonl")
lock_support = Place("cache", "locks.jsonl")
engines = Place("cache", "engines.jsonl")
images = Place("cache", "images.jsonl")
gpus = Place("cache", "gpus.jsonl")
pythons = Place("cache", "pythons")
spark_packages = Place("cache", "spark-packages")
shipped = Place("cache", "shipped")
silent = Place("cache", "silent")
upkeep = Place("cache", "upkeep")
solve_log = Place("cache", "solve.log")
verify_log = Place("cache", "verify.log")
tools_log = Place("cache", "tools.log")

# In ``ssh``, and in the folder of a login there.
ssh_sockets = Place("s")
key = Place("key")
public_key = Place("key.pub")
known_hosts = Place("known_hosts")
asks = Place("asks")  # empty; the machine accepts no public keys

# In ``ui``, the folder of the web servers of this store.
ui_name = Place("name")
ui_preferences = Place("preferences.json")
ui_servers = Place("servers")

# In ``objects`` and ``data/objects``.
damaged = Place("damaged")

# In the store and in an attempt: what is being transferred.
arriving = Place("arriving")

# In the folder of a runner.
site = Place("site")
builder_program = Place("builder", "__main__.py")
container_init = Place("runner", "container", "init.py")
gpu_probe = Place("runner", "gpu", "probe.py")
package_list = Place("runner", "machine", "installed_packages.py")

# In the folder of a run.
request = Place("run.json")
client = Place("client.jsonl")
git_diff = Place("git.diff")

# In the folder of an attempt.
plan = Place("plan.json")
waiting = Place("waiting")
secrets = Place("secrets")
job = Place("job.json")
alive = Place("alive")
reserve = Place("reserve")
events = Place("events.jsonl")
control = Place("control.jsonl")
log = Place("log")
runner_log = Place("runner.log")
environment_log = Place("environment.log")
engine_log = Place("engine.log")
metrics = Place("metrics")
package_file = Place("metrics", "packages.json")  # every version mirrors, hashes and exports what is in there
spark_file = Place("metrics", "spark.jsonl")
spark_scratch = Place("scratch")
spark_progress = Place("scratch", "progress")
gpu = Place("gpu")
manifest = Place("outputs.jsonl")
outputs = Place("outputs")
kept_checkpoints = Place("outputs", "checkpoints")  # in a working folder: where they are when the script has ended
workspace = Place("workspace")
work = Place("workspace", "above", "work")  # the script's folder: what it writes to ../ and ../../ is the run's too
checkpoints = Place("workspace", ".holdfast-checkpoints")  # what a further attempt finds again
old_work = Place("work")  # the script's folder in attempts of earlier versions
container_id = Place("cid")
out_of_memory = Place("oom")  # left by podman
inside = Place("inside")
mirrored = (events, log, runner_log, manifest, control, plan)  # what clients keep a copy of, with the two folders
mirrored_folders = (metrics, gpu)

# In the folder ``inside`` of an attempt in a container.
script_end = Place("note")
stream = Place("stream")
ended = Place("ended")
packages_inside = Place("packages")
users_inside = Place("passwd")
gpu_touch = Place("touch")
gpu_lost = Place("gpu-lost")


def runner(home: "AnyStr", digest: "AnyStr") -> "AnyStr":
    return os.path.join(runners(home), digest)


def environment(home: "AnyStr", key: "AnyStr") -> "AnyStr":
    return os.path.join(environments(home), key)


def lock(home: "AnyStr", name: "AnyStr") -> "AnyStr":
    return os.path.join(locks(home), name)


def build_lock(home: "bytes", key: "bytes") -> "bytes":
    """Held by the process that builds the environment."""
    return lock(home, b"env-" + key)


def use_lock(home: "bytes", key: "bytes") -> "bytes":
    """Shared by the runs that use the environment."""
    return lock(home, b"use-" + key)


def image_lock(home: "bytes", image: "bytes") -> "bytes":
    """Shared by the runs that use the image."""
    return lock(home, b"use-image-" + image)


def stat_cache(home: "AnyStr", project_id: "AnyStr") -> "AnyStr":
    """Versions before 2 use ``stat-``, with rules that took private keys into snapshots."""
    if isinstance(project_id, bytes):
        return os.path.join(cache(home), b"stat2-" + project_id)
    return os.path.join(cache(home), "stat2-" + project_id)


def data_note(home: "bytes", tree: "bytes") -> "bytes":
    """What is known of a data set."""
    return os.path.join(data(home), tree + b".json")


def data_lock(home: "bytes") -> "bytes":
    """Held while the note of a data set is changed."""
    return os.path.join(data(home), b"lock")


def run(home: "AnyStr", uid: "AnyStr") -> "AnyStr":
    return os.path.join(runs(home), uid)


def attempt(run: "str", number: "int") -> "str":
    return os.path.join(run, "a%d" % number)


def worked_in(attempt: "AnyStr") -> "AnyStr":
    """The script's folder in an attempt of any version."""
    old = old_work(attempt)
    return old if os.path.isdir(old) and not os.path.lexists(workspace(attempt)) else work(attempt)


def removed_with_work(attempt: "AnyStr") -> "AnyStr":
    """What is removed when the script's folder is not needed any more."""
    folder = worked_in(attempt)
    return folder if folder == old_work(attempt) else workspace(attempt)
