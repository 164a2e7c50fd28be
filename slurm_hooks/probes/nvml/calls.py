"""Calls to NVML for one GPU: which return codes mean "unknown", and many values in one call.

Return codes, field ids and struct layout: nvml.h, as nvidia-ml-py 13.615.71 declares them. Only
field ids below 251 are read: later ones were renumbered between releases.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Return codes (nvmlReturn_t).
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 2, 3, 4
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 12, 13
GPU_IS_LOST, RESET_REQUIRED, NO_DATA, VERSION_MISMATCH, DEPRECATED = 15, 16, 21, 25, 26
UNKNOWN = frozenset(
    {
        INVALID_ARGUMENT,
        NOT_SUPPORTED,
        NO_PERMISSION,
        FUNCTION_NOT_FOUND,
        NO_DATA,
        VERSION_MISMATCH,
        DEPRECATED,
    }
)
"""Return codes for what a GPU, driver or binding of another version does not support (an unknown
field or link is an invalid argument). They are no errors; the value is None.
"""
WHOLE_GPU = frozenset({GPU_IS_LOST, RESET_REQUIRED})

# Field ids (NVML_FI_DEV_*). The scope of a link's field is the number of the link.
ECC_MODE, ECC_MODE_PENDING = 1, 2
POWER_VIOLATION, THERMAL_VIOLATION = 74, 75
MEMORY_TEMPERATURE, LINK_COUNT, PCIE_REPLAYS = 82, 91, 94
LINK_REPLAYS, LINK_RECOVERIES, LINK_CRC_ERRORS, LINK_STATE = 161, 162, 163, 165
SLOWDOWN_MARGIN, RECOVERY_ACTION = 194, 230
SW_THERMAL_SLOWDOWN, HW_THERMAL_SLOWDOWN, HW_POWER_BRAKE_SLOWDOWN = 269, 270, 271

Field = tuple[int, int]
"""(field id, scope)."""

_FIELD = struct.Struct("<II32x")
"""nvmlFieldValue_t (40 bytes) in a request: id and scope; NVML fills the rest."""
_WORDS, _TYPE, _CODE, _VALUE = 10, 6, 7, 4
"""Its length in words of 32 bits, the words with the value's type and the return code, and the word
of 64 bits with the value.
"""
_READ: Mapping[int, Callable[[int], int]] = {
    1: lambda bits: bits & 0xFFFFFFFF,
    2: lambda bits: bits,
    3: lambda bits: bits,
    4: lambda bits: bits - ((bits >> 63) << 64),
    5: lambda bits: (bits & 0x7FFFFFFF) - (bits & 0x80000000),
    6: lambda bits: bits & 0xFFFF,
}
"""nvmlValueType_t: unsigned int, unsigned long, unsigned long long, signed long long, signed int,
unsigned short. None of the fields below is a double.
"""


class Batch:
    """Fields that are read in one call."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.request = b"".join(_FIELD.pack(number, scope) for number, scope in fields)


class GpuUnavailable(Exception):
    """The GPU as a whole is lost or requires a reset (``args[0]`` is the code): no more calls."""


class NvmlCalls:
    """Calls for one GPU. ``errors``: (call, code) of the calls that failed in this pass."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.errors: list[tuple[str, int]] = []

    def call(self, name: str, *args: Any) -> Any:
        """The call's value; None: unknown. Raises GpuUnavailable for a lost GPU."""
        try:
            return getattr(self._nvml, name)(*args)
        except self._nvml.NVMLError as error:
            code = int(error.value)
        except (AttributeError, UnicodeDecodeError):  # an older binding; an unreadable string
            return None
        self._failed(name, code)
        return None

    def text(self, name: str, handle: Any) -> str | None:
        """A call that returns text; None if it is empty."""
        value = self.call(name, handle)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return value or None

    def filled(self, name: str, handle: Any, kind: str) -> Any:
        """A call that fills a struct of the binding's type ``kind``; None: unknown."""
        make = getattr(self._nvml, kind, None)
        if make is None:
            return None
        made = make()
        return None if self.call(name, handle, ctypes.byref(made)) is None else made

    def fields(self, handle: Any, batch: Batch) -> list[int | None]:
        """The value of each field, in the order of the batch; None: unknown. Each field has its own
        return code.

        This does not use the binding's nvmlDeviceGetFieldValues: it accesses each value through a
        Python attribute, which for the 84 fields of an H100 takes longer than the driver call.
        """
        answer = ctypes.create_string_buffer(batch.request, len(batch.request))
        code = self._field_values(handle, len(batch.fields), answer)
        if code:
            self._failed("nvmlDeviceGetFieldValues", code)
            return [None] * len(batch.fields)
        words = memoryview(answer).cast("B").cast("I")
        types, codes = words[_TYPE::_WORDS].tolist(), words[_CODE::_WORDS].tolist()
        bits = memoryview(answer).cast("B").cast("Q")[_VALUE :: _WORDS // 2].tolist()
        if any(codes):
            self._record_failures(batch, codes)
        return [
            _READ[kind](value) if not code and kind in _READ else None
            for kind, code, value in zip(types, codes, bits, strict=True)
        ]

    def _field_values(self, handle: Any, count: int, answer: Any) -> int:
        try:
            find = self._nvml._nvmlGetFunctionPointer
            return int(find("nvmlDeviceGetFieldValues")(handle, count, ctypes.byref(answer)))
        except self._nvml.NVMLError as error:
            return int(error.value)

    def _record_failures(self, batch: Batch, codes: Sequence[int]) -> None:
        for (number, _), code in zip(batch.fields, codes, strict=True):
            if code:
                self._failed(f"field {number}", code)

    def _failed(self, name: str, code: int) -> None:
        if code in WHOLE_GPU:
            raise GpuUnavailable(code)
        if code not in UNKNOWN:
            self.errors.append((name, code))
