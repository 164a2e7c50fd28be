"""The node's GPUs, read through NVML. Only this module imports pynvml, and only in a contained worker.

Calls and return codes: nvidia-ml-py 13.615.71. A value that a GPU or driver does not support is None
and no error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from slurm_hooks.facts import GpuFacts, NvmlFacts
from slurm_hooks.probes.nvml.calls import LIBRARY_NOT_FOUND
from slurm_hooks.probes.nvml.gpu import Gpu

DEFAULT_LIBRARY = "libnvidia-ml.so.1"
RELEASE = "release"
"""Request: answer, then close NVML, because an open NVML client blocks a GPU reset."""

Parts = Iterator[NvmlFacts | GpuFacts]


def open_probe(library: str = DEFAULT_LIBRARY) -> Callable[[object], Parts]:
    """Load the binding. Answers with the driver's facts first, then with those of each GPU."""
    if library != DEFAULT_LIBRARY:
        # The loader then finds it for later requests by its DT_SONAME.
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
    """The worker's parts as one value; None without the driver's part."""
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
    """NVML, opened at the first request and again after each release."""

    def __init__(self, nvml: Any) -> None:
        self._nvml, self._ready, self._driver = nvml, False, ""
        self._gpus: dict[int, Gpu] = {}

    def read(self, request: object) -> Parts:
        nvml = self._nvml
        try:
            if not self._ready:
                nvml.nvmlInit()
                self._ready = True
                self._driver = str(nvml.nvmlSystemGetDriverVersion())
            count = int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            self._close()
            yield NvmlFacts(init_code=int(error.value), init_error=_cause(error))
            return
        yield NvmlFacts(count=count, driver=self._driver)
        for index in range(count):
            if index not in self._gpus:
                self._gpus[index] = Gpu(nvml, index)
            yield self._gpus[index].read()
        if request == RELEASE:
            self._close()

    def _close(self) -> None:
        self._gpus.clear()
        if self._ready:
            self._ready = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                pass  # then nothing is open


def _cause(error: BaseException) -> str:
    """NVML's message, and that of the loader if the library could not be loaded."""
    why = error.__context__
    return f"{error}: {why}" if isinstance(why, OSError) else str(error)
