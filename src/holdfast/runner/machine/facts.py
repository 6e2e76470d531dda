"""Facts that an environment depends on: platform, C library, NVIDIA driver, and the interpreter behind a name."""

import os
import sys

from ..decoding import readable
from ..store import jsonl, layout
from . import processes

MYPY = False
if MYPY:
    import ctypes

_MACHINES = {"x86_64": "64", "amd64": "64", "aarch64": "aarch64", "arm64": "arm64", "ppc64le": "ppc64le"}
_ASK = (
    "import os, platform, sys; print(platform.python_version()); print(platform.python_implementation()); "
    "print(sys.prefix); print(os.path.realpath(sys.executable))"
)
_NVIDIA = "/proc/driver/nvidia"
# One of these is there wherever a driver of NVIDIA's is: on Linux, in WSL, on a Jetson.
_DRIVERS = ("/dev/nvidiactl", _NVIDIA + "/version", "/dev/dxg", "/dev/nvmap")
_NVIDIA_SMI_S = 30
_JVMS = "/usr/lib/jvm"
_SPARKS = ("/usr/hdp/current/spark3-client", "/usr/hdp/current/spark2-client", "/usr/lib/spark", "/opt/spark")


def facts(home: "bytes", python: "str") -> "dict[str, object]":
    cards = gpu(home)
    return {
        "platform": platform(),
        "virtual": virtual_packages(cards),
        "gpu": cards,
        "python": interpreter(home, python),
        "java": java(),
        "spark": spark(),
    }


def java() -> "int":
    """The newest major version of Java here, by the files of its folders; 0 without one."""
    folders = [os.environ.get("JAVA_HOME") or "/usr/lib/jvm/default-java"]
    program = which("java")
    if program is not None:
        folders.append(os.path.dirname(os.path.dirname(os.path.realpath(program))))
    if os.path.isdir(_JVMS):
        folders += [os.path.join(_JVMS, name) for name in os.listdir(_JVMS)]
    return max([0, *map(_java_version, folders)])


def _java_version(folder: "str") -> "int":
    import re

    if not os.access(os.path.join(folder, "bin", "java"), os.X_OK):
        return 0
    try:
        with open(os.path.join(folder, "release"), "rb") as source:
            match = re.search(rb'JAVA_VERSION="(?:1\.)?(\d+)', source.read(65536))
    except OSError:
        return 0
    return int(match.group(1)) if match else 0


def spark() -> "str":
    """The version of a Spark that is installed here, as on the head node of a cluster; empty without one."""
    import re

    program = which("spark-submit")
    homes = [os.environ.get("SPARK_HOME") or "", os.path.dirname(os.path.dirname(os.path.realpath(program or "/")))]
    for home in homes + list(_SPARKS):
        jars = os.path.join(home, "jars")
        for name in os.listdir(jars) if home and os.path.isdir(jars) else ():
            match = re.match(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)", name)
            if match:
                return match.group(1)
    return ""


def within(home: "bytes", image: "dict[str, object]") -> "dict[str, object]":
    """The same, as a program finds it in a container of an image: another C library, another interpreter."""
    cards = gpu(home)
    python = None
    if image.get("python"):
        identity = "%s %s" % (image["id"], image["python"])
        python = {"path": image["python"], "version": image["version"], "identity": identity}
    virtual = dict(virtual_packages(cards), __glibc=image.get("glibc"))
    return {"platform": platform(), "virtual": virtual, "gpu": cards, "python": python}


def platform() -> "str":
    """The conda name of this kind of machine, such as linux-64 or osx-arm64."""
    system = "osx" if sys.platform == "darwin" else "linux"
    machine = os.uname().machine.lower()
    return "%s-%s" % (system, _MACHINES.get(machine, machine))


def virtual_packages(cards: "dict[str, object] | None") -> "dict[str, object]":
    """Conda's names for what the machine itself brings; None where it is absent, no name where it is unknown."""
    packages = {"__unix": "0", "__linux": None, "__glibc": None, "__osx": None}  # type: dict[str, object]
    if sys.platform == "darwin":
        packages["__osx"] = os.uname().release
    else:
        packages["__linux"] = os.uname().release.split("-")[0]
        packages["__glibc"] = _glibc()
    if cards is None or cards["cuda"]:
        packages["__cuda"] = cards["cuda"] if cards else None
    return packages


def gpu(home: "bytes") -> "dict[str, object] | None":
    """Driver, the newest CUDA that it serves, and the compute capabilities of the NVIDIA cards; None without any.

    Asking may take seconds, so the answer is remembered for as long as boot, driver and cards stay the same. A machine
    without such a driver pays for a few looks at the disk.
    """
    program = which("nvidia-smi")
    if program is None and not has_driver():
        return None
    note = _gpu_note(home)
    state = _gpu_state(program)
    known = _known_gpu(note, state)
    if known is not None:
        return known
    answer = (_ask_nvidia_smi(program) if program else None) or _ask_nvml()
    if answer is not None:
        os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
        jsonl.append_line(note, dict(answer, state=state))
        return answer
    # A program without a driver is left over; a driver that tells no more than this may still have cards.
    return {"driver": "", "cuda": _cuda_of_driver(), "capabilities": []} if has_driver() else None


def gpu_if_known(home: "bytes") -> "list[object] | None":
    """The capabilities of the cards, one for each, if they were asked since the last boot."""
    known = _known_gpu(_gpu_note(home), _gpu_state(which("nvidia-smi")))
    cards = (known or {}).get("capabilities")
    return cards if isinstance(cards, list) and cards else None


def has_driver() -> "bool":
    return any(map(os.path.exists, _DRIVERS))


def _gpu_note(home: "bytes") -> "bytes":
    return layout.gpus(home)


def _known_gpu(note: "bytes", state: "str") -> "dict[str, object] | None":
    for line in jsonl.read_lines(note):
        if line.get("state") == state:
            return {name: line[name] for name in ("driver", "cuda", "capabilities")}
    return None


def _gpu_state(program: "str | None") -> "str":
    parts = [processes.boot_id(), _identity(os.path.realpath(program)) if program else ""]
    try:
        with open(_NVIDIA + "/version") as source:
            parts.append(source.read())
        parts += sorted(os.listdir(_NVIDIA + "/gpus"))
    except OSError:
        pass  # in WSL there is none
    return "\n".join(parts)


def _ask_nvidia_smi(program: "str") -> "dict[str, object] | None":
    """Judged by its output: the exit code is lost where SIGCHLD is ignored."""
    import re

    output = _printed([program, "--query-gpu=driver_version,compute_cap", "--format=csv,noheader"], _NVIDIA_SMI_S)
    cards = re.findall(r"^([\d.]+), (\d+\.\d+)\s*$", output or "", re.MULTILINE)
    cuda = (
        re.search(r"CUDA (?:\w+ )?Version *: *(\d+\.\d+)", _printed([program], _NVIDIA_SMI_S) or "") if cards else None
    )
    if not cards or cuda is None:
        return None
    return {"driver": cards[0][0], "cuda": cuda.group(1), "capabilities": [capability for _, capability in cards]}


def _ask_nvml() -> "dict[str, object] | None":
    """The library under nvidia-smi, where the program is not on the path or too old to know capabilities."""
    import ctypes

    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return None
        driver, cuda, count = ctypes.create_string_buffer(96), ctypes.c_int(), ctypes.c_uint()
        failed = nvml.nvmlSystemGetDriverVersion(driver, 96)
        failed += nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda))
        failed += nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        capabilities = [_nvml_capability(nvml, number) for number in range(count.value)]
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return None
    if failed or not capabilities or not all(capabilities):
        return None
    version = driver.value.decode("ascii", "replace")
    return {"driver": version, "cuda": _cuda(cuda.value), "capabilities": capabilities}


def _cuda_of_driver() -> "str":
    """Asked of the driver's own library: a Jetson has no other."""
    import ctypes

    try:
        number = ctypes.c_int(0)
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) != 0:
            return ""
    except (OSError, AttributeError):
        return ""
    return _cuda(number.value)


def _cuda(number: "int") -> "str":
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def _nvml_capability(nvml: "ctypes.CDLL", number: "int") -> "str":
    import ctypes

    card, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    failed = nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(card))
    failed += nvml.nvmlDeviceGetCudaComputeCapability(card, ctypes.byref(major), ctypes.byref(minor))
    return "" if failed else "%d.%d" % (major.value, minor.value)


def interpreter(home: "bytes", name: "str") -> "dict[str, object] | None":
    """Path, version and identity of what a name stands for on this machine; None if there is nothing of that name.

    Starting it takes tens of milliseconds, so its answer is remembered for as long as the file stays the same.
    """
    path = which(name) or (which("python3") if name == "python" else None)
    if path is None:
        return None
    note = layout.interpreters(home)
    is_script = _is_script(path)  # what a shim starts may change while the shim stays the same
    for line in [] if is_script else jsonl.read_lines(note):
        if line.get("path") == path and line.get("identity") == _identity(os.path.realpath(path)):
            return line
    answer = _ask(path)
    if answer is None:
        return None
    line = {"path": path, "version": answer[0], "implementation": answer[1], "prefix": answer[2]}
    line["identity"] = _identity(answer[3])
    if not is_script:
        os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
        jsonl.append_line(note, line)
    return line


def which(name: "str") -> "str | None":
    name = os.path.expanduser(name)
    if os.path.dirname(name):
        return name if os.access(name, os.X_OK) else None
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _identity(real: "str") -> "str":
    status = os.stat(real)
    return "%s:%d:%d" % (real, status.st_size, int(status.st_mtime))


def _is_script(path: "str") -> "bool":
    with open(path, "rb") as source:
        return source.read(2) == b"#!"


def _ask(path: "str") -> "list[str] | None":
    lines = (_printed([path, "-I", "-c", _ASK], 60) or "").split("\n")
    return lines if len(lines) >= 4 else None


def _printed(argv: "list[str]", limit_s: "int") -> "str | None":
    import subprocess

    try:
        output = subprocess.check_output(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit_s)
    except (OSError, subprocess.SubprocessError):
        return None
    return readable(output)


def _glibc() -> "str | None":
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").split()[-1]  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return None
