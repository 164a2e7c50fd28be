"""How NVML is asked about one GPU: which answers are no opinion, and many values in one call.

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
NO_OPINION = frozenset(
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
"""What a GPU, a driver or a binding of another age does not know (an id or a link that is not there
is an invalid argument). It fails nothing.
"""
OF_THE_GPU = frozenset({GPU_IS_LOST, RESET_REQUIRED})

# Field ids (NVML_FI_DEV_*). Those of a link take its number as their scope.
ECC_MODE, ECC_MODE_PENDING = 1, 2
HELD_BY_POWER, HELD_BY_HEAT = 74, 75
MEMORY_TEMPERATURE, LINK_COUNT, PCIE_REPLAYS = 82, 91, 94
LINK_REPLAYS, LINK_RECOVERIES, LINK_CRC_ERRORS, LINK_STATE = 161, 162, 163, 165
SLOWDOWN_MARGIN, RECOVERY_ACTION = 194, 230
HELD_BY_SW_HEAT, HELD_BY_HW_HEAT, HELD_BY_POWER_BRAKE = 269, 270, 271

Field = tuple[int, int]
"""(field id, scope)."""

_FIELD = struct.Struct("<II32x")
"""How an nvmlFieldValue_t (40 bytes) is asked: its id and its scope, the rest is the answer."""
_WORDS, _TYPE, _CODE, _VALUE = 10, 6, 7, 4
"""32-bit words of one, where the type of the value and the return code stand; the value is the
fifth word of 64 bits.
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
unsigned short. No field that is read here is a double.
"""


class Batch:
    """Fields to ask together, in one call."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.asked = b"".join(_FIELD.pack(number, scope) for number, scope in fields)


class GpuSpoke(Exception):
    """The GPU as a whole answered with a code (``args[0]``): nothing more to ask it."""


class Calls:
    """Calls about one GPU. ``errors`` holds (call, code) of those that failed in this pass."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.errors: list[tuple[str, int]] = []

    def call(self, name: str, *args: Any) -> Any:
        """The call's value; None where there is no opinion. Raises GpuSpoke for a lost GPU."""
        try:
            return getattr(self._nvml, name)(*args)
        except self._nvml.NVMLError as error:
            code = int(error.value)
        except (AttributeError, UnicodeDecodeError):  # an older binding; an unreadable string
            return None
        self._failed(name, code)
        return None

    def text(self, name: str, handle: Any) -> str | None:
        """A call whose value is a text; empty is None."""
        value = self.call(name, handle)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return value or None

    def filled(self, name: str, handle: Any, kind: str) -> Any:
        """A call that fills a struct of the binding's type ``kind``; None as in ``call``."""
        make = getattr(self._nvml, kind, None)
        if make is None:
            return None
        made = make()
        return None if self.call(name, handle, ctypes.byref(made)) is None else made

    def fields(self, handle: Any, batch: Batch) -> list[int | None]:
        """The value of each field, in the order of the batch. None where there is no opinion: each
        has a return code of its own.

        The binding's own nvmlDeviceGetFieldValues sets and reads each value through a Python
        attribute, which for the 84 of an H100 takes longer than the driver does.
        """
        answer = ctypes.create_string_buffer(batch.asked, len(batch.asked))
        code = self._field_values(handle, len(batch.fields), answer)
        if code:
            self._failed("nvmlDeviceGetFieldValues", code)
            return [None] * len(batch.fields)
        words = memoryview(answer).cast("B").cast("I")
        types, codes = words[_TYPE::_WORDS].tolist(), words[_CODE::_WORDS].tolist()
        bits = memoryview(answer).cast("B").cast("Q")[_VALUE :: _WORDS // 2].tolist()
        if any(codes):
            self._complain(batch, codes)
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

    def _complain(self, batch: Batch, codes: Sequence[int]) -> None:
        for (number, _), code in zip(batch.fields, codes, strict=True):
            if code:
                self._failed(f"field {number}", code)

    def _failed(self, name: str, code: int) -> None:
        if code in OF_THE_GPU:
            raise GpuSpoke(code)
        if code not in NO_OPINION:
            self.errors.append((name, code))
