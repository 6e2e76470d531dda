"""Chooses how this engine gives NVIDIA GPUs to a container (``nvidiaDocker: true``).

The ways, best first. By CDI the engine itself knows the devices, so that they stay when the machine's services are
loaded anew; by a hook or a runtime of NVIDIA's they are put in behind its back. Without NVIDIA's toolkit the device
nodes and the driver's libraries are passed one by one. podman takes ``--gpus`` and ignores it: it is never asked so.
"""

import re

from . import nvidia_files

MYPY = False
if MYPY:
    from typing import Any

FOLDER = "/usr/local/holdfast/nvidia"
_CDI_SINCE = {"docker": (25,), "podman": (4, 1)}
_GPUS_SINCE = (19, 3)


def look(
    engine: "dict[str, Any]", given: "list[dict[str, Any]] | None" = None, root: "bytes" = b"/"
) -> "dict[str, Any]":
    """``choose`` for this machine. ``engine``: name, version, runtimes, and the folders in which it looks for CDI."""
    return choose(engine, nvidia_files.facts(engine.get("cdi") or (), root), given)


def choose(
    engine: "dict[str, Any]", machine: "dict[str, Any]", given: "list[dict[str, Any]] | None" = None
) -> "dict[str, Any]":
    """``words`` for the engine, ``environment`` for the script, ``how`` for people, or why it is ``refused``.

    LD_LIBRARY_PATH of the environment belongs before whatever the image or the run has there. ``advice`` is what would
    make it better. ``given`` are the cards to hand over, by UUID, index and minor number; None means all.
    """
    if machine["driver"]:
        for method in (_by_cdi, _by_hook, _by_runtime, _by_hand):
            chosen = method(engine, machine, given)
            if chosen is not None:
                return chosen
    return _method([], "", refused=_refusal(engine, machine))


def _method(
    arguments: "list[str]",
    how: "str",
    environment: "dict[str, str] | None" = None,
    advice: "str" = "",
    refused: "str" = "",
) -> "dict[str, Any]":
    return {"words": arguments, "environment": environment or {}, "how": how, "advice": advice, "refused": refused}


def _by_cdi(
    engine: "dict[str, Any]", machine: "dict[str, Any]", given: "list[dict[str, Any]] | None"
) -> "dict[str, Any] | None":
    spec = machine["cdi"]
    if spec is None or spec["missing"] or _version(engine) < _CDI_SINCE[engine["name"]]:
        return None
    # Docker has a switch for it, and says its folders only where that is on.
    if engine["name"] == "docker" and not engine.get("cdi"):
        return None
    arguments = []  # type: list[str]
    for name in _cdi_names(spec["names"], given):
        arguments += ["--device", "nvidia.com/gpu=%s" % name]
    return _method(arguments, "with CDI, as in %s" % spec["file"])


def _cdi_names(known: "list[str]", given: "list[dict[str, Any]] | None") -> "list[str]":
    """One name per GPU, by UUID or number as in the file; with only ``all``, CUDA_VISIBLE_DEVICES selects."""
    names = [next((name for name in (card["uuid"], str(card["index"])) if name in known), "") for card in given or ()]
    return names if names and all(names) else ["all"]


def _by_hook(
    engine: "dict[str, Any]", machine: "dict[str, Any]", given: "list[dict[str, Any]] | None"
) -> "dict[str, Any] | None":
    if engine["name"] != "docker" or not machine["hook"] or _version(engine) < _GPUS_SINCE:
        return None
    # Docker reads this word as comma-separated values, so that more than one device must stand in quotes.
    which = '"device=%s"' % ",".join(card["uuid"] for card in given) if given is not None else "all"
    return _method(["--gpus", which], "with the hook of NVIDIA's container toolkit")


def _by_runtime(
    engine: "dict[str, Any]", _machine: "dict[str, Any]", given: "list[dict[str, Any]] | None"
) -> "dict[str, Any] | None":
    if engine["name"] != "docker" or "nvidia" not in (engine.get("runtimes") or ()):
        return None
    # An image that does not say what it wants gets nvidia-smi and no CUDA from older runtimes.
    which = ",".join(card["uuid"] for card in given) if given is not None else "all"
    options = ["-e", "NVIDIA_VISIBLE_DEVICES=%s" % which, "-e", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
    return _method(["--runtime", "nvidia", *options], "with docker's runtime nvidia")


def _by_hand(
    engine: "dict[str, Any]", machine: "dict[str, Any]", given: "list[dict[str, Any]] | None"
) -> "dict[str, Any] | None":
    if _missing_nodes(machine) or "libcuda.so.1" not in machine["libraries"]:
        return None
    arguments = []  # type: list[str]
    nodes = [node for node in machine["nodes"] if _is_given(node, given)]
    for node in nodes:
        arguments += ["--device", node]
    places = {"%s/%s" % (FOLDER, name): path for name, path in machine["libraries"].items()}
    # Some look for it by the name that only the driver's headers bring.
    places["%s/libcuda.so" % FOLDER] = machine["libraries"]["libcuda.so.1"]
    if machine["nvidia_smi"]:
        places["/usr/bin/nvidia-smi"] = machine["nvidia_smi"]
    for target in sorted(places):
        arguments += ["--mount", "type=bind,source=%s,target=%s,readonly" % (places[target], target)]
    counts = len(nodes), len(machine["libraries"])
    how = "%d device nodes and %d libraries of the driver" % counts
    return _method(arguments, how, {"LD_LIBRARY_PATH": FOLDER}, _advice(engine, machine))


def _is_given(node: "str", given: "list[dict[str, Any]] | None") -> "bool":
    """Nodes of single cards bear their minor number; where that is not known, all are handed over."""
    number = re.match(r"/dev/nvidia(\d+)$", node)
    numbers = [card.get("minor_number") for card in given or ()]
    return number is None or given is None or None in numbers or int(number.group(1)) in numbers


def _advice(engine: "dict[str, Any]", machine: "dict[str, Any]") -> "str":
    """Why nothing of NVIDIA's own serves here, and what to do about it."""
    spec = machine["cdi"]
    if engine["name"] == "podman" and _version(engine) < _CDI_SINCE["podman"]:
        return "podman %s does not support CDI; 4.1 and newer do" % engine["version"]
    why = "NVIDIA's container toolkit is not set up for %s here" % engine["name"]
    if spec is not None and spec["missing"]:
        why = "%s is older than the driver: %s no longer exists" % (spec["file"], spec["missing"])
    return "%s. Do:\n%s" % (why, _indented(toolkit_lines(engine, machine)))


def _missing_nodes(machine: "dict[str, Any]") -> "list[str]":
    """Nodes without which CUDA does not start."""
    wanted = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    if not any(re.match(r"/dev/nvidia\d+$", node) for node in machine["nodes"]):
        wanted.insert(0, "/dev/nvidia0")
    return [node for node in wanted if node not in machine["nodes"]]


def _version(engine: "dict[str, Any]") -> "tuple[int, ...]":
    return tuple(int(number) for number in re.findall(r"\d+", str(engine["version"]))[:3])


def _refusal(engine: "dict[str, Any]", machine: "dict[str, Any]") -> "str":
    if machine["system"] == "Darwin":
        return "containers on a Mac have no NVIDIA GPU: write nvidiaDocker: false"
    if not machine["driver"] and machine["cards"] == 0:
        return "this machine has no NVIDIA GPU: write nvidiaDocker: false, or use another target"
    if not machine["driver"]:
        message = "this machine has no driver for its NVIDIA GPU. Install it, restart, then the container toolkit:\n%s"
        return message % _indented([*driver_lines(machine), "sudo reboot", *toolkit_lines(engine, machine)])
    if machine["driver"] == "kernel" and _missing_nodes(machine):
        message = "NVIDIA's driver is loaded, but %s is missing. On that machine:\n%s"
        return message % (", ".join(_missing_nodes(machine)), _indented(["sudo nvidia-modprobe -u -c 0"]))
    if machine["driver"] == "kernel":
        message = (
            "NVIDIA's driver is loaded, but its library libcuda.so.1 cannot be found. Install the whole driver:\n%s"
        )
        return message % _indented(driver_lines(machine))
    return _advice(engine, machine)


def toolkit_lines(engine: "dict[str, Any]", machine: "dict[str, Any]") -> "list[str]":
    """What to type on this distribution so that the engine can hand cards to containers."""
    install = [] if machine["toolkit"] else _TOOLKIT.get(_family(machine), [_TOOLKIT_ANYWHERE])
    if engine["name"] == "podman" or (machine["cdi"] and engine.get("cdi")):
        path = machine["cdi"]["file"] if machine["cdi"] else "/etc/cdi/nvidia.yaml"
        return [*install, "sudo nvidia-ctk cdi generate --output=%s" % path]
    return [*install, "sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"]


def driver_lines(machine: "dict[str, Any]") -> "list[str]":
    family = machine["os"]["id"] if machine["os"]["id"] in _DRIVER else _family(machine)
    return _DRIVER.get(family, [_DRIVER_ANYWHERE])


def _family(machine: "dict[str, Any]") -> "str":
    for name in [machine["os"]["id"], *machine["os"]["like"]]:
        for family, members in _FAMILIES.items():
            if name in members:
                return family
    return ""


def _indented(lines: "list[str]") -> "str":
    return "\n".join("    " + line for line in lines)


_FAMILIES = {
    "debian": ("debian", "ubuntu"),
    "rhel": ("rhel", "fedora", "centos", "rocky", "almalinux", "amzn", "ol"),
    "suse": ("suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "sles"),
    "arch": ("arch",),
}
_TOOLKIT_ANYWHERE = "# install NVIDIA's container toolkit: see docs.nvidia.com"
_DRIVER_ANYWHERE = "# install NVIDIA's driver: see docs.nvidia.com"
_PACKAGES = "https://nvidia.github.io/libnvidia-container"
_KEY = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
_TOOLKIT = {
    "debian": [
        "curl -fsSL %s/gpgkey | sudo gpg --dearmor -o %s" % (_PACKAGES, _KEY),
        "curl -fsSL %s/stable/deb/nvidia-container-toolkit.list | sed 's#deb https://#deb [signed-by=%s] https://#g'"
        " | sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list" % (_PACKAGES, _KEY),
        "sudo apt-get update && sudo apt-get install -y nvidia-container-toolkit",
    ],
    "rhel": [
        "curl -fsSL %s/stable/rpm/nvidia-container-toolkit.repo"
        " | sudo tee /etc/yum.repos.d/nvidia-container-toolkit.repo" % _PACKAGES,
        "sudo dnf install -y nvidia-container-toolkit",
    ],
    "suse": [
        "sudo zypper ar %s/stable/rpm/nvidia-container-toolkit.repo" % _PACKAGES,
        "sudo zypper --gpg-auto-import-keys install -y nvidia-container-toolkit",
    ],
    "arch": ["sudo pacman -S nvidia-container-toolkit"],
}
_DRIVER = {
    "ubuntu": ["sudo ubuntu-drivers install"],
    "debian": ["sudo apt-get install -y linux-headers-$(uname -r) nvidia-driver   # needs contrib and non-free"],
    "fedora": ["sudo dnf install -y akmod-nvidia xorg-x11-drv-nvidia-cuda   # needs RPM Fusion (nonfree)"],
    "rhel": ["sudo dnf install -y nvidia-open   # needs NVIDIA's CUDA repository"],
    "suse": ["sudo zypper install -y nvidia-open-driver-G06-signed-kmp-meta nvidia-compute-utils-G06"],
    "arch": ["sudo pacman -S nvidia-open nvidia-utils"],
}
