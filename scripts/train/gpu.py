"""What the programs in this folder ask of NVML."""

from __future__ import annotations

from collections.abc import Callable


def gpu_touch(local: int) -> Callable[[], None]:
    """A call that fails as a CUDA call on a lost GPU would.

    For machines whose GPUs exist for NVML only: torch without CUDA cannot use one, so NVML is called
    instead. Does nothing without NVML.
    """
    try:
        import pynvml  # noqa: PLC0415 - optional here

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no NVML, no GPU to touch
        return lambda: None

    def touch() -> None:
        try:
            pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(local))
        except pynvml.NVMLError as error:
            raise RuntimeError(
                "CUDA error: unspecified launch failure\n"
                "CUDA kernel errors might be asynchronously reported at some other API call, "
                f"so the stacktrace below might be incorrect. (GPU {local}: {error})"
            ) from None

    return touch
