"""Finds NVIDIA's driver, device nodes, libraries and tools on this machine, to pass them to a container."""

import os
import re

from ..decoding import as_bytes, lossless, readable

MYPY = False
if MYPY:
    from collections.abc import Iterable
    from typing import Any

_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_NODES = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm|nvidia-uvm-tools|nvidia-modeset")
# What a script needs to compute, and nvidia-smi to tell of it; nothing of graphics.
_LIBRARIES = re.compile(
    r"lib(cuda|cudadebugger|nvidia-(ml|cfg|nvvm|nvvm70|ptxjitcompiler|gpucomp|compiler|opencl|allocator"
    r"|fatbinaryloader|pkcs11|pkcs11-openssl3))\.so\.[\d.]+"
)
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/usr/lib",
    "/usr/lib/nvidia",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)
_ELF_64 = b"\x7fELF\x02"
_LONGEST = 1 << 20


def facts(cdi_folders: "Iterable[str]" = (), root: "bytes" = b"/") -> "dict[str, Any]":
    """``root`` is where the machine's files begin, for those who look at one from outside.

    ``driver``: kernel, wsl, tegra, or empty; ``cards``: how many are on the bus, None if unknown; ``cdi``: the
    file that tells engines of all cards, with the first thing in it that is ``missing`` since the driver changed.
    """
    return {
        "system": os.uname().sysname,
        "os": _os(root),
        "cards": _cards(root),
        "driver": _driver(root),
        "nodes": _nodes(root),
        "libraries": _libraries(root),
        "nvidia_smi": _program(root, "nvidia-smi"),
        "hook": bool(_program(root, "nvidia-container-runtime-hook")),
        "toolkit": bool(_program(root, "nvidia-ctk")),
        "cdi": _cdi(root, list(cdi_folders) or _CDI_FOLDERS),
    }


def _os(root: "bytes") -> "dict[str, Any]":
    fields = {}  # type: dict[str, str]
    for line in _text(root, "/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        fields[name] = value.strip("\"' \t").lower()
    return {"id": fields.get("ID", ""), "like": fields.get("ID_LIKE", "").split()}


def _cards(root: "bytes") -> "int | None":
    """Displays and 3D controllers of vendor 10de."""
    folder = "/sys/bus/pci/devices"
    if not os.path.isdir(_at(root, folder)):
        return None
    devices = ["%s/%s" % (folder, name) for name in _names(root, folder)]
    ours = [path for path in devices if _text(root, path + "/vendor").strip() == "0x10de"]
    return sum(_text(root, path + "/class").startswith("0x03") for path in ours)


def _driver(root: "bytes") -> "str":
    for path, kind in (
        ("/dev/nvidiactl", "kernel"),
        ("/proc/driver/nvidia/version", "kernel"),
        ("/dev/dxg", "wsl"),
        ("/dev/nvmap", "tegra"),
    ):
        if os.path.exists(_at(root, path)):
            return kind
    return ""


def _nodes(root: "bytes") -> "list[str]":
    nodes = ["/dev/" + name for name in _names(root, "/dev") if _NODES.fullmatch(name)]
    parts = ["/dev/nvidia-caps/" + name for name in _names(root, "/dev/nvidia-caps")]
    # Some of these are root's, for dividing a card; an engine of the caller's own would fail on them.
    return nodes + [path for path in parts if os.access(_at(root, path), os.R_OK)]


def _libraries(root: "bytes") -> "dict[str, str]":
    """The name under which a program asks for a library -> its file; the first folder that has it wins."""
    libraries = {}  # type: dict[str, str]
    for folder in _library_folders(root):
        names = {}  # type: dict[str, str]
        for name in _names(root, folder):
            if _LIBRARIES.fullmatch(name) and _is_elf_64(root, "%s/%s" % (folder, name)):
                real = _real(root, "%s/%s" % (folder, name))
                # Of the names of one file, the shortest is the one that programs were linked with.
                if real not in names or len(name) < len(names[real]):
                    names[real] = name
        for real, name in names.items():
            libraries.setdefault(name, real)
    return libraries


def _library_folders(root: "bytes") -> "list[str]":
    """Those of the dynamic linker's own list come first."""
    folders = []  # type: list[str]
    for name in _names(root, "/etc/ld.so.conf.d"):
        lines = _text(root, "/etc/ld.so.conf.d/" + name).splitlines()
        folders += [line.strip() for line in lines if line.strip().startswith("/")]
    return list(dict.fromkeys([*folders, *_LIBRARY_FOLDERS]))


def _is_elf_64(root: "bytes", path: "str") -> "bool":
    try:
        with open(_at(root, path), "rb") as source:
            return source.read(len(_ELF_64)) == _ELF_64
    except OSError:
        return False


def _real(root: "bytes", path: "str") -> "str":
    """The file behind links, as seen from ``root``."""
    base = os.path.realpath(root)
    real = os.path.realpath(_at(root, path))
    return "/" + lossless(os.path.relpath(real, base)) if real.startswith(base) else path


def _program(root: "bytes", name: "str") -> "str":
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), *_PROGRAM_FOLDERS]:
        path = "%s/%s" % (folder, name)
        if folder.startswith("/") and os.access(_at(root, path), os.X_OK):
            return path
    return ""


def _cdi(root: "bytes", folders: "Iterable[str]") -> "dict[str, Any] | None":
    """A specification of NVIDIA's with the device ``all``: one that fits the machine if there is any."""
    specs = []  # type: list[dict[str, Any]]
    for folder in folders:
        for name in _names(root, folder):
            text = _text(root, "%s/%s" % (folder, name)) if name.endswith((".json", ".yaml", ".yml")) else ""
            if _says(text, "kind", r"nvidia\.com/gpu") and _says(text, "name", "all"):
                names = re.findall(r"\bname[\"']?\s*:\s*[\"']?([\w.:-]+)", text)
                spec = {"file": "%s/%s" % (folder, name), "missing": _first_missing(root, text)}
                specs.append(dict(spec, names=names))
    return min(specs, key=lambda spec: bool(spec["missing"])) if specs else None


def _says(text: "str", key: "str", value: "str") -> "bool":
    """Good for YAML and JSON alike; Python brings no reader of YAML."""
    return re.search(r"\b%s[\"']?\s*:\s*[\"']?%s[\"']?\s*([,}\n]|$)" % (key, value), text) is not None


def _first_missing(root: "bytes", text: "str") -> "str":
    named = re.findall(r"\b(?:hostPath|path)[\"']?\s*:\s*[\"']?(/[^\"'\s,}]+)", text)
    return next((path for path in named if not os.path.exists(_at(root, path))), "")


def _names(root: "bytes", folder: "str") -> "list[str]":
    try:
        return sorted(lossless(name) for name in os.listdir(_at(root, folder)))
    except OSError:
        return []


def _text(root: "bytes", path: "str") -> "str":
    try:
        with open(_at(root, path), "rb") as source:
            return readable(source.read(_LONGEST))
    except OSError:
        return ""


def _at(root: "bytes", path: "str") -> "bytes":
    return os.path.join(root, as_bytes(path.lstrip("/")))
