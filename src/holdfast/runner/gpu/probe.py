"""Tests whether the script's Python can use the GPU. Runs under any Python that a script may use (2.7 too).

``probe.py look`` asks the driver which GPUs it shows, and reads which builds of torch, tensorflow and jax this Python
would import, without importing them. ``probe.py run`` also allocates memory on each GPU, computes there and compares
the result. It prints one line of JSON that begins with ``MARK``; other output comes from Python's start files.
"""

import ctypes
import json
import os
import re
import sys
import time

MYPY = False
if MYPY:
    from typing import Any  # noqa: F401 - in comments

MARK = "holdfast-touch "
LIBRARY = "libcuda.so.1"
SIZE = 64 << 20
LITTLE = 1 << 20
PLACES, PER_PLACE = 16, 4096
BLOCK = 256
SEED = 0x5EED
MOST = 64
OUT_OF_MEMORY = 2
_OTHERS = re.compile("(cupy|pycuda|numba-cuda|onnxruntime-gpu|mxnet-cu|cntk-gpu|paddlepaddle-gpu|cuml|cudf|xgboost)")
# Adds its index to every number: to be right, a card has to read, to compute and to write.
_PTX = """
.version 4.0
.target %s
.address_size 64
.visible .entry add_index(.param .u64 numbers, .param .u32 count)
{
    .reg .pred %%p<2>;
    .reg .b32 %%r<8>;
    .reg .b64 %%rd<5>;
    ld.param.u64 %%rd1, [numbers];
    ld.param.u32 %%r1, [count];
    mov.u32 %%r2, %%ctaid.x;
    mov.u32 %%r3, %%ntid.x;
    mov.u32 %%r4, %%tid.x;
    mad.lo.u32 %%r5, %%r2, %%r3, %%r4;
    setp.ge.u32 %%p1, %%r5, %%r1;
    @%%p1 bra DONE;
    cvta.to.global.u64 %%rd2, %%rd1;
    mul.wide.u32 %%rd3, %%r5, 4;
    add.u64 %%rd4, %%rd2, %%rd3;
    ld.global.u32 %%r6, [%%rd4];
    add.u32 %%r7, %%r6, %%r5;
    st.global.u32 [%%rd4], %%r7;
DONE:
    ret;
}
"""


class Refused(Exception):
    """The driver says no."""

    def __init__(self, step, code, name):
        # type: (str, int, str) -> None
        Exception.__init__(self, "%s: %s (%d)" % (step, name, code))
        self.step = step
        self.code = code
        self.name = name

    def as_dict(self):
        # type: () -> dict[str, Any]
        return {"step": self.step, "code": self.code, "name": self.name}


def main(argv):
    # type: (list[str]) -> None
    here = os.path.dirname(os.path.abspath(globals().get("__file__", "")))  # none where it is read from stdin
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]  # no script finds our own modules there
    began = time.time()
    facts = look()
    if argv[1:] == ["run"]:
        facts["trials"] = _trials(facts)
    facts["seconds"] = round(time.time() - began, 3)
    sys.stdout.write("%s%s\n" % (MARK, json.dumps(facts)))
    sys.stdout.flush()
    # The driver's threads are not waited for: what it does at a regular end can hang with a broken card.
    os._exit(0)


def look():
    # type: () -> dict[str, Any]
    """What the driver shows without a context on any card, and the builds of this Python's packages."""
    facts = {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "program": sys.executable,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "nodes": _nodes(),
        "packages": packages(sys.path),
        "library": "",
        "refused": None,
        "cuda": None,
        "devices": [],
    }  # type: dict[str, Any]
    try:
        driver = Driver()
    except (OSError, AttributeError):
        facts["library"] = str(sys.exc_info()[1])
        return facts
    facts["cuda"] = driver.version()
    try:
        driver.call("cuInit", ctypes.c_uint(0))
        facts["devices"] = driver.devices()
    except Refused as error:
        facts["refused"] = error.as_dict()
    return facts


class Driver:
    """NVIDIA's driver API, by the names that its header gives today's functions."""

    def __init__(self):
        # type: () -> None
        self._library = ctypes.CDLL(LIBRARY)
        self._library.cuInit  # noqa: B018 - a library without it is none

    def version(self):
        # type: () -> str | None
        """The newest CUDA that it serves; it says so before anything is set up."""
        number = ctypes.c_int(0)
        try:
            self.call("cuDriverGetVersion", ctypes.byref(number))
        except Refused:
            return None
        return "%d.%d" % (number.value // 1000, number.value % 1000 // 10) if number.value else None

    def devices(self):
        # type: () -> list[dict[str, Any]]
        count = ctypes.c_int(0)
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return [self._device(index) for index in range(min(count.value, MOST))]

    def _device(self, index):
        # type: (int) -> dict[str, Any]
        handle = self.handle(index)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, ctypes.c_int(256), handle)
        return {
            "index": index,
            "name": name.value.decode("utf-8", "replace"),
            "uuid": self._uuid(handle),
            "major": self._attribute(75, handle),
            "minor": self._attribute(76, handle),
        }

    def _attribute(self, which, handle):
        # type: (int, Any) -> int
        number = ctypes.c_int(0)
        self.call("cuDeviceGetAttribute", ctypes.byref(number), ctypes.c_int(which), handle)
        return number.value

    def handle(self, index):
        # type: (int) -> Any
        device = ctypes.c_int(0)
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        return device

    def _uuid(self, handle):
        # type: (Any) -> str | None
        """Of the part where a card is divided, which only the second form tells."""
        raw = (ctypes.c_ubyte * 16)()
        for form in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"):
            try:
                self.call(form, ctypes.byref(raw), handle)
            except Refused:
                continue
            text = "".join("%02x" % byte for byte in raw)
            return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return None

    def call(self, name, *arguments):
        # type: (str, Any) -> None
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise Refused(name, 500, "this driver does not have it")  # noqa: B904 - Python 2 has no from
        code = function(*arguments)
        if code:
            raise Refused(name, code, self._name(code))

    def _name(self, code):
        # type: (int) -> str
        name = ctypes.c_char_p()
        try:
            if self._library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name)) == 0 and name.value:
                return name.value.decode("ascii", "replace")
        except AttributeError:
            pass  # drivers before CUDA 6
        return "CUDA error %d" % code


def _trials(facts):
    # type: (dict[str, Any]) -> list[dict[str, Any]]
    """One for each card that the driver shows; one that fails does not keep the others from being tried."""
    if facts["library"] or facts["refused"]:
        return []
    driver = Driver()
    return [_trial(driver, device) for device in facts["devices"]]


def _trial(driver, device):
    # type: (Driver, dict[str, Any]) -> dict[str, Any]
    result = {"index": device["index"], "name": device["name"], "uuid": device["uuid"]}  # type: dict[str, Any]
    result.update(ok=False, bytes=0, how="", note="", refused=None)
    began = time.time()
    try:
        handle, context = driver.handle(device["index"]), ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        driver.call("cuCtxSetCurrent", context)
        memory, result["bytes"] = _take_memory(driver)
        _compute(driver, device, memory, result)
        driver.call("cuMemFree_v2", memory)
        driver.call("cuDevicePrimaryCtxRelease", handle)
    except Refused as error:
        result.update(ok=False, refused=error.as_dict())
    result["seconds"] = round(time.time() - began, 3)
    return result


def _take_memory(driver):
    # type: (Driver) -> tuple[Any, int]
    memory = ctypes.c_uint64(0)
    for size in (SIZE, LITTLE):
        try:
            driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
            return memory, size
        except Refused as error:
            if error.code != OUT_OF_MEMORY or size == LITTLE:
                raise
    raise AssertionError("one of the two has returned or raised")


def _compute(driver, device, memory, result):
    # type: (Driver, dict[str, Any], Any, dict[str, Any]) -> None
    """Fill the memory, let the card add to it by a program of ours, and see whether the sums are right."""
    count = result["bytes"] // 4
    driver.call("cuMemsetD32_v2", memory, ctypes.c_uint(SEED), ctypes.c_size_t(count))
    step = 0
    try:
        _launch(driver, "sm_50" if device["major"] >= 5 else "sm_30", memory, count)
        result["how"], step = "kernel", 1
    except _Untranslated as error:
        result.update(how="memset", note="no kernel was run, as the driver could not translate ours: %s" % error)
    wrong = _wrong(driver, memory, count, step)
    result["ok"] = not wrong
    if wrong:
        result["note"] = wrong


class _Untranslated(Exception):
    """The driver's compiler is missing or does not take our program; the card may be well."""


def _launch(driver, target, memory, count):
    # type: (Driver, str, Any, int) -> None
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    text = ctypes.create_string_buffer((_PTX % target).encode("ascii"))
    try:
        driver.call("cuModuleLoadData", ctypes.byref(module), text)
    except Refused as error:
        raise _Untranslated(str(error))  # noqa: B904 - Python 2 has no from
    driver.call("cuModuleGetFunction", ctypes.byref(kernel), module, ctypes.c_char_p(b"add_index"))
    number = ctypes.c_uint(count)
    given = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(number))
    dim, none = ctypes.c_uint(1), ctypes.c_void_p()
    grid, block = ctypes.c_uint((count + BLOCK - 1) // BLOCK), ctypes.c_uint(BLOCK)
    driver.call("cuLaunchKernel", kernel, grid, dim, dim, block, dim, dim, ctypes.c_uint(0), none, given, none)
    driver.call("cuCtxSynchronize")
    driver.call("cuModuleUnload", module)


def _wrong(driver, memory, count, step):
    # type: (Driver, Any, int, int) -> str
    """The first number that is not what it must be, of some that are spread over the memory."""
    here = (ctypes.c_uint * PER_PLACE)()
    for sample in range(PLACES):
        first = (count - PER_PLACE) * sample // (PLACES - 1)
        there = ctypes.c_uint64(memory.value + 4 * first)
        driver.call("cuMemcpyDtoH_v2", ctypes.byref(here), there, ctypes.c_size_t(4 * PER_PLACE))
        for at, number in enumerate(here, first):
            if number != (SEED + step * at) & 0xFFFFFFFF:
                return "number %d came back as %d and not as %d" % (at, number, SEED + step * at)
    return ""


def _nodes():
    # type: () -> list[str]
    try:
        return ["/dev/" + name for name in sorted(os.listdir("/dev")) if name.startswith("nvidia")][:MOST]
    except OSError:
        return []


def packages(path):
    # type: (list[str]) -> list[dict[str, Any]]
    """``name``, ``version``, ``build`` (cuda, cpu, rocm; empty if unknown), ``cuda`` that it was built for."""
    folders = [folder for folder in path if folder and os.path.isdir(folder)]
    versions = {}  # type: dict[str, str]
    for folder in folders:
        for name, version in _installed(folder):
            versions.setdefault(name, version)
    candidates = [_torch(folders, versions), _tensorflow(folders, versions), _jax(versions)]
    candidates += [_package(name, versions[name], "cuda", None) for name in sorted(versions) if _OTHERS.match(name)]
    return [package for package in candidates if package]


def _installed(folder):
    # type: (str) -> list[tuple[str, str]]
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    matches = (re.match(r"(.+?)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info$", name) for name in names)
    return [(match.group(1).lower().replace("_", "-"), match.group(2)) for match in matches if match]


def _torch(folders, versions):
    # type: (list[str], dict[str, str]) -> dict[str, Any] | None
    text = _first_text(folders, "torch/version.py")
    if not text:
        return None
    version = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", text, re.M)
    cuda = re.search(r"^cuda\s*(?::[^=\n]*)?=\s*['\"]([\d.]+)", text, re.M)
    rocm = re.search(r"^hip\s*(?::[^=\n]*)?=\s*['\"]", text, re.M)
    build = "cuda" if cuda else "rocm" if rocm else "cpu"
    return _package("torch", version.group(1) if version else versions.get("torch"), build, cuda and cuda.group(1))


def _tensorflow(folders, versions):
    # type: (list[str], dict[str, str]) -> dict[str, Any] | None
    text = _first_text(folders, "tensorflow/python/platform/build_info.py")
    names = [
        name for name in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel") if name in versions
    ]
    if not text and not names:
        return None
    name = names[0] if names else "tensorflow"
    is_cuda = re.search(r"is_cuda_build['\"]?\s*[=:,]\s*(True|False)", text)
    cuda = re.search(r"cuda_version(?:_number)?['\"]?\s*[=:,]\s*['\"](\d[\d.]*)", text)
    build = "cpu" if name in ("tensorflow-cpu", "tensorflow-intel") else ""
    if is_cuda and not build:
        build = "cuda" if is_cuda.group(1) == "True" else "cpu"
    package = _package(name, versions.get(name), build, cuda and cuda.group(1))
    package["cudnn"] = _has_cudnn(folders)
    return package


def _has_cudnn(folders):
    # type: (list[str]) -> bool
    """It comes with packages of NVIDIA's, with conda or the machine; without it tensorflow leaves the GPU alone."""
    if any(os.path.isdir(os.path.join(folder, "nvidia", "cudnn", "lib")) for folder in folders):
        return True
    places = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    places += [os.path.join(sys.prefix, "lib"), "/usr/local/cuda/lib64", "/usr/lib64", "/usr/lib"]
    places += ["/usr/lib/%s-linux-gnu" % os.uname()[4]]
    return any(name.startswith("libcudnn.so") for path in places if os.path.isdir(path) for name in os.listdir(path))


def _jax(versions):
    # type: (dict[str, str]) -> dict[str, Any] | None
    version = versions.get("jaxlib")
    if not version:
        return None
    builds = [re.match(r"jax-cuda(\d+)-(?:plugin|pjrt)$", name) for name in versions]
    builds.append(re.search(r"\+cuda(\d+)", version))  # before there were plugins
    majors = sorted(int(match.group(1)) for match in builds if match)
    return _package(
        "jax", versions.get("jax", version), "cuda" if majors else "cpu", str(majors[-1]) if majors else None
    )


def _package(name, version, build, cuda):
    # type: (str, str | None, str, str | None) -> dict[str, Any]
    return {"name": name, "version": version or "", "build": build, "cuda": cuda or None}


def _first_text(folders, name):
    # type: (list[str], str) -> str
    for folder in folders:
        try:
            with open(os.path.join(folder, name), "rb") as source:
                return source.read(65536).decode("utf-8", "replace")
        except (IOError, OSError):
            continue
    return ""


if __name__ == "__main__":
    main(sys.argv)
