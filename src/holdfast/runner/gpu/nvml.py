"""Reads GPUs, their processes and their load through NVIDIA's management library (NVML).

The only module that imports the binding, and only in a child process (``nvml_process``, ``watcher``): the library may
hang or crash together with the driver.
"""

import os

from . import gpu_model

MYPY = False
if MYPY:
    from typing import Any

LIBRARY = "libnvidia-ml.so.1"


class NoLibrary(Exception):
    """It cannot be used here at all; another source may know. The text says why."""


def look_with(source: "Any") -> "tuple[Any, dict[str, Any]]":
    """One reading from this source, or from the first that works. For a process that may hang."""
    try:
        source = source or opened()
        return source, source.look()
    except gpu_model.Trouble as error:
        return source, gpu_model.nothing(gpu_model.UNMEASURED, str(error))
    except NoLibrary as error:
        return source, without(str(error))
    except Exception as error:
        return source, gpu_model.nothing(gpu_model.UNMEASURED, "%s: %s" % (type(error).__name__, error))


def opened() -> "Any":
    """The source that works here: the library, else ``nvidia-smi``."""
    from ..machine import facts as machine

    try:
        return Library()
    except NoLibrary:
        program = machine.which("nvidia-smi")
        if program is None:
            raise
        from . import nvidia_smi

        return nvidia_smi.Program(program)


def without(why: "str") -> "dict[str, Any]":
    """Neither source works. ``none`` is reported only if the machine itself shows that it has no GPU."""
    from ..container import nvidia_files

    seen = nvidia_files.facts()
    number, state = seen["cards"], gpu_model.UNMEASURED
    if seen["system"] == "Darwin":
        trouble = "Mac GPUs (Metal) cannot be measured"
    elif seen["driver"]:
        trouble = why
    elif number:
        trouble = "no driver is loaded for the NVIDIA GPU of this machine (%d on the bus): %s" % (number, why)
    elif os.path.exists("/dev/kfd"):
        trouble = "AMD GPUs (ROCm) cannot be measured"
    elif number is None:
        trouble = "GPUs cannot be measured here: %s, and the PCI bus cannot be read" % why
    else:
        state, trouble = gpu_model.NONE, "this machine has no NVIDIA GPU"
    return gpu_model.nothing(state, trouble)


class Library:
    """What the library says. What a card always is, is asked once and still known when the card is lost."""

    def __init__(self) -> "None":
        import ctypes

        try:
            ctypes.CDLL(LIBRARY)  # tried first, as the binding takes its time to load
            from . import pynvml  # type: ignore[attr-defined]
        except OSError:
            raise NoLibrary("NVIDIA's library %s does not exist" % LIBRARY) from None
        except ImportError as error:
            raise NoLibrary("the binding to NVIDIA's library is missing: %s" % error) from error
        self._nvml = pynvml
        self._lasting = {}  # type: dict[int, dict[str, Any]]
        self._events = None  # type: Any
        self._uuids = {}  # type: dict[int | None, str]
        self._sampled = {}  # type: dict[int, int]
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                raise NoLibrary("NVIDIA's library: %s" % error) from error
            raise gpu_model.Trouble(_meaning(error)) from error

    def look(self) -> "dict[str, Any]":
        nvml = self._nvml
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise gpu_model.Trouble(_meaning(error)) from error
        cuda = self._ask("nvmlSystemGetCudaDriverVersion_v2")
        result = gpu_model.nothing(gpu_model.MEASURED, "")
        result.update(source="nvml", driver=self._ask("nvmlSystemGetDriverVersion") or "")
        result.update(cuda="%d.%d" % (cuda // 1000, cuda % 1000 // 10) if cuda else "")
        result.update(gpus=[self._card(index) for index in range(count)])
        if not count:
            result["trouble"] = "NVIDIA's driver is loaded but shows no GPU"
        return result

    def tick(self, index: "int", thorough: "bool" = True) -> "dict[str, Any]":
        """What changes all the time, for those who ask often; Trouble if the card is gone.

        With ``thorough`` also who is on it, how hot it is and what holds it back.
        """
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            busy = self._ask("nvmlDeviceGetUtilizationRates", handle)
            milliwatts = self._ask("nvmlDeviceGetPowerUsage", handle)
            seen = {
                "busy": busy.gpu if busy else None,
                "memory": getattr(self._memory(handle), "used", None),
                "watts": None if milliwatts is None else milliwatts / 1000.0,
            }
            if thorough:
                celsius = self._ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
                throttle = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
                seen.update(celsius=celsius, throttle=throttle, pids=self._pids(handle))
            return seen
        except nvml.NVMLError as error:
            raise gpu_model.Trouble(_meaning(error)) from error

    def counters(self, index: "int") -> "dict[str, Any]":
        """What a card has counted since the driver was loaded; the energy takes milliseconds to be read.

        ``sampled``: see ``_new_samples``.
        """
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)
            ecc = [self._ask("nvmlDeviceGetTotalEccErrors", handle, kind, nvml.NVML_VOLATILE_ECC) for kind in (0, 1)]
            sampled = self._new_samples(handle, index)
        except nvml.NVMLError as error:
            raise gpu_model.Trouble(_meaning(error)) from error
        joules = None if millijoules is None else millijoules / 1000.0
        return {"joules": joules, "corrected": ecc[0], "uncorrected": ecc[1], "sampled": sampled}

    def _new_samples(self, handle: "Any", index: "int") -> "tuple[float, float] | None":
        """Seconds covered by the driver's own samples since the last call, and seconds busy in them.

        The driver keeps some 20 s of samples. None at the first call, and where there are no new ones.
        """
        before = self._sampled.get(index, 0)
        answer = self._ask("nvmlDeviceGetSamples", handle, self._nvml.NVML_GPU_UTILIZATION_SAMPLES, before)
        samples = sorted((sample.timeStamp, sample.sampleValue.uiVal) for sample in answer[1]) if answer else []
        covered, busy = gpu_model.add_samples(before, samples)
        is_first = index not in self._sampled
        self._sampled[index] = samples[-1][0] if samples else before
        return None if is_first or not covered else (covered, busy)

    def xids(self) -> "list[tuple[str, int]]":
        """UUID and number of each critical error since the last question; the first one only begins to listen."""
        nvml = self._nvml
        errors = []  # type: list[tuple[str, int]]
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
                for index in range(nvml.nvmlDeviceGetCount()):
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
                    self._uuids[_address(handle)] = nvml.nvmlDeviceGetUUID(handle)
            while True:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                # A card that is lost does not tell its name any more.
                errors.append((self._uuids.get(_address(event.device), ""), int(event.eventData)))
        except nvml.NVMLError:
            return errors  # no more, or a card or driver that does not tell

    def _card(self, index: "int") -> "dict[str, Any]":
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if index not in self._lasting:
                self._lasting[index] = self._what_it_is(handle)
            return gpu_model.card(index=index, **dict(self._lasting[index], **self._what_it_does(handle)))
        except nvml.NVMLError as error:
            lost = gpu_model.card(index=index, **self._lasting.get(index, {}))
            return dict(lost, trouble=_meaning(error))

    def _what_it_is(self, handle: "Any") -> "dict[str, Any]":
        nvml = self._nvml
        bus = self._ask("nvmlDeviceGetPciInfo", handle)
        capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle) or (None, None)
        return {
            "name": nvml.nvmlDeviceGetName(handle),
            "uuid": nvml.nvmlDeviceGetUUID(handle),
            "pci": gpu_model.pci(bus.domain, bus.bus, bus.device) if bus else None,
            "major": capability[0],
            "minor": capability[1],
            "memory_clock_mhz": self._ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
            "core_clock_mhz": self._ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
            "minor_number": self._ask("nvmlDeviceGetMinorNumber", handle),
        }

    def _what_it_does(self, handle: "Any") -> "dict[str, Any]":
        memory = self._memory(handle)
        busy = self._ask("nvmlDeviceGetUtilizationRates", handle)
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", handle)
        ecc, mig = self._ask("nvmlDeviceGetEccMode", handle), self._ask("nvmlDeviceGetMigMode", handle)
        return {
            "memory_total": memory.total if memory else None,
            "memory_free": memory.free if memory else None,
            "memory_used": memory.used if memory else None,
            "busy_percent": busy.gpu if busy else None,
            "power_watts": None if milliwatts is None else milliwatts / 1000.0,
            "celsius": self._ask("nvmlDeviceGetTemperature", handle, self._nvml.NVML_TEMPERATURE_GPU),
            "ecc": bool(ecc[0]) if ecc else None,
            "mig": bool(mig[0]) if mig else None,
            "processes": self._processes(handle),
        }

    def _memory(self, handle: "Any") -> "Any":
        """The first form counts what the driver keeps for itself as used."""
        second = self._ask("nvmlDeviceGetMemoryInfo", handle, self._nvml.nvmlMemory_v2)
        return second or self._ask("nvmlDeviceGetMemoryInfo", handle)

    def _processes(self, handle: "Any") -> "list[dict[str, Any]] | None":
        from . import process_owner

        memory = self._pids(handle)
        return None if memory is None else [process_owner.holder(pid, memory[pid]) for pid in sorted(memory)]

    def _pids(self, handle: "Any") -> "dict[int, int | None] | None":
        """Who computes on it, and with how much memory."""
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses_v3", handle)
        if listed is None:
            listed = self._ask("nvmlDeviceGetComputeRunningProcesses_v2", handle)  # drivers before 510
        if listed is None:
            return None
        memory = {}  # type: dict[int, int | None]
        for process in listed:  # a process in several parts of a divided card is there several times
            known = memory.get(process.pid, 0)
            memory[process.pid] = (
                None if known is None or process.usedGpuMemory is None else known + process.usedGpuMemory
            )
        return memory

    def _ask(self, function: "str", *arguments: "object") -> "Any":
        """None where this card or driver does not tell; a card that is gone is another matter."""
        nvml = self._nvml
        try:
            return getattr(nvml, function)(*arguments)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
                raise
            return None


def _address(handle: "Any") -> "int | None":
    import ctypes

    return ctypes.cast(handle, ctypes.c_void_p).value


def _meaning(error: "Any") -> "str":
    """The library's own words are for those who wrote it."""
    from . import pynvml  # type: ignore[attr-defined]

    meanings = {
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "NVIDIA's driver and its library are of different versions, as "
        "after an update without a restart: restart the machine",
        pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU is lost: it has fallen off the bus or its driver gave it up; the "
        "kernel's log names the Xid; restart the machine",
        pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU must be reset before it can be used: nvidia-smi --gpu-reset, or "
        "restart the machine",
        pynvml.NVML_ERROR_NO_PERMISSION: "NVIDIA's device files /dev/nvidia* are not accessible to this user",
        pynvml.NVML_ERROR_UNKNOWN: "NVIDIA's driver reports an unknown error; in a container this means that the "
        "container lost access to the GPU, for example by systemctl daemon-reload: restart the container",
    }
    return meanings.get(error.value) or "NVIDIA's library: %s" % error
