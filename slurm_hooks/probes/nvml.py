"""GPUs through NVML. The only module that imports pynvml, and it runs only inside a contained
worker.

Calls, field ids and return codes: nvidia-ml-py 13.615.71. Only field ids below 251 are read: later
ones were renumbered between releases. What a GPU or driver does not support stays None and fails
nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from slurm_hooks.facts import GpuFacts, NvmlFacts, pci_address

DEFAULT_LIBRARY = "libnvidia-ml.so.1"
RELEASE = "release"
"""Request: answer, then let go of the driver (an open NVML client stands in the way of a GPU
reset).
"""

# Return codes (nvml.h nvmlReturn_t).
UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND = 1, 3, 4, 13
GPU_IS_LOST, RESET_REQUIRED, NO_DATA = 15, 16, 21
LIBRARY_NOT_FOUND = 12
_NO_OPINION = {NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, NO_DATA}
_OF_THE_GPU = {GPU_IS_LOST, RESET_REQUIRED}

_FIELD_LINK_COUNT, _FIELD_SLOWDOWN_MARGIN, _FIELD_RECOVERY_ACTION = 91, 194, 230
_FIELD_VALUES = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
_MAX_LINKS = 36

Parts = Iterator[NvmlFacts | GpuFacts]


def open_probe(library: str = DEFAULT_LIBRARY) -> Callable[[object], Parts]:
    """Load the binding; returns what reads the whole node, driver first, then GPU by GPU."""
    if library != DEFAULT_LIBRARY:
        # The loader then matches later requests by the library's own name (DT_SONAME).
        try:
            ctypes.CDLL(library)
        except OSError as error:
            reason = str(error)
            return lambda _request: iter(
                [NvmlFacts(init_code=LIBRARY_NOT_FOUND, init_error=reason)]
            )
    import pynvml  # noqa: PLC0415 - the one owner, and only in the worker

    return _Node(pynvml).read


def assemble(parts: tuple[object, ...]) -> NvmlFacts | None:
    """The worker's parts as one value; None when not even the driver's part came."""
    head = next((part for part in parts if isinstance(part, NvmlFacts)), None)
    if head is None:
        return None
    gpus = tuple(part for part in parts if isinstance(part, GpuFacts))
    return NvmlFacts(
        count=head.count,
        driver=head.driver,
        init_code=head.init_code,
        init_error=head.init_error,
        gpus=gpus,
    )


class _Node:
    def __init__(self, nvml: Any) -> None:
        self._nvml, self._ready = nvml, False

    def read(self, request: object) -> Parts:
        nvml = self._nvml
        try:
            if not self._ready:
                nvml.nvmlInit()
                self._ready = True
            count = int(nvml.nvmlDeviceGetCount())
            driver = str(nvml.nvmlSystemGetDriverVersion())
        except nvml.NVMLError as error:
            self._close()
            yield NvmlFacts(init_code=int(error.value), init_error=_cause(error))
            return
        yield NvmlFacts(count=count, driver=driver)
        for index in range(count):
            yield _Gpu(nvml, index).read()
        if request == RELEASE:
            self._close()

    def _close(self) -> None:
        if self._ready:
            self._ready = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                pass  # nothing is open then


def _cause(error: BaseException) -> str:
    """NVML's words, and the loader's where the library itself is the trouble."""
    why = error.__context__
    return f"{error}: {why}" if isinstance(why, OSError) else str(error)


class _GpuSpoke(Exception):
    """The GPU as a whole answered with a code: nothing more to ask it."""


class _Gpu:
    """Reads one GPU; remembers the codes of calls that failed."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml, self._index = nvml, index
        self._values: dict[str, Any] = {"index": index}
        self._errors: list[tuple[str, int]] = []

    def read(self) -> GpuFacts:
        try:
            handle = self._call("nvmlDeviceGetHandleByIndex", self._index)
            if handle is not None:
                self._identity(handle)
                self._memory(handle)
                self._links(handle)
                self._heat(handle)
        except _GpuSpoke as spoke:
            self._values["state_code"] = spoke.args[0]
        return GpuFacts(errors=tuple(self._errors), **self._values)

    def _call(self, name: str, *args: Any) -> Any:
        """The call's value; None where there is no opinion. Raises _GpuSpoke for a lost GPU."""
        try:
            return getattr(self._nvml, name)(*args)
        except self._nvml.NVMLError as error:
            code = int(error.value)
        except (AttributeError, UnicodeDecodeError):  # an older binding; an unreadable string
            return None
        if code in _OF_THE_GPU:
            raise _GpuSpoke(code)
        if code not in _NO_OPINION:
            self._errors.append((name, code))
        return None

    def _identity(self, handle: Any) -> None:
        values = self._values
        # The address first: a GPU that is lost later in this read is still told apart.
        pci = self._call("nvmlDeviceGetPciInfo", handle)
        values["pci"] = pci_address(_text(pci.busId)) if pci is not None else None
        values["uuid"] = _text(self._call("nvmlDeviceGetUUID", handle)) or None
        values["name"] = _text(self._call("nvmlDeviceGetName", handle)) or None

    def _memory(self, handle: Any) -> None:
        values, nvml = self._values, self._nvml
        values["uncorrected"] = self._call(
            "nvmlDeviceGetTotalEccErrors",
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        )
        rows = self._call("nvmlDeviceGetRemappedRows", handle)
        if rows is not None:
            values["remap_pending"], values["remap_failed"] = bool(rows[2]), bool(rows[3])
        fields = self._fields(handle, (_FIELD_RECOVERY_ACTION, _FIELD_SLOWDOWN_MARGIN))
        values["recovery_action"] = fields.get(_FIELD_RECOVERY_ACTION)
        values["slowdown_margin_c"] = fields.get(_FIELD_SLOWDOWN_MARGIN)

    def _links(self, handle: Any) -> None:
        values = self._values
        count = self._fields(handle, (_FIELD_LINK_COUNT,)).get(_FIELD_LINK_COUNT)
        if count:
            states = [
                self._call("nvmlDeviceGetNvLinkState", handle, link)
                for link in range(min(int(count), _MAX_LINKS))
            ]
            known = tuple(bool(state) for state in states if state is not None)
            values["nvlinks"] = known or None
        values["pcie_gen"] = self._call("nvmlDeviceGetCurrPcieLinkGeneration", handle)
        values["pcie_max_gen"] = self._call("nvmlDeviceGetMaxPcieLinkGeneration", handle)
        values["pcie_width"] = self._call("nvmlDeviceGetCurrPcieLinkWidth", handle)
        values["pcie_max_width"] = self._call("nvmlDeviceGetMaxPcieLinkWidth", handle)

    def _heat(self, handle: Any) -> None:
        values, nvml = self._values, self._nvml
        reasons = self._call("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # the name before R535
            reasons = self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        values["clock_reasons"] = reasons
        values["temperature_c"] = self._call(
            "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU
        )
        values["thermal_margin_c"] = self._call("nvmlDeviceGetMarginTemperature", handle)

    def _fields(self, handle: Any, ids: tuple[int, ...]) -> dict[int, int]:
        """Field values by id; each has its own return code, and those not supported are left
        out.
        """
        found = self._call("nvmlDeviceGetFieldValues", handle, list(ids))
        values = {}
        for item in found or ():
            if item.nvmlReturn in _OF_THE_GPU:
                raise _GpuSpoke(int(item.nvmlReturn))
            if item.nvmlReturn == 0 and item.valueType in _FIELD_VALUES:
                values[int(item.fieldId)] = int(getattr(item.value, _FIELD_VALUES[item.valueType]))
        return values


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
