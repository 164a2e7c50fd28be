"""A process of its own that uses nvidia-ml-py, unmodified, over the simulated library, and is asked
line by line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_SOURCE = """
import ctypes, json, sys, time
import pynvml as n
def h(index): return n.nvmlDeviceGetHandleByIndex(index)
def timed(call):
    begin = time.monotonic(); call(); return time.monotonic() - begin
def field(index, number): return n.nvmlDeviceGetFieldValues(h(index), [number])[0]
def filled(call, made):
    call(made[0], ctypes.byref(made[1])); return made[1]
def fabric(index): return filled(n.nvmlDeviceGetGpuFabricInfoV, (h(index), n.c_nvmlGpuFabricInfo_v3_t()))
def sram(index): return filled(n.nvmlDeviceGetSramEccErrorStatus, (h(index), n.c_nvmlEccSramErrorStatus_v1_t()))
n.nvmlInit()
print("ready", flush=True)
for line in sys.stdin:
    try: answer = eval(line)
    except n.NVMLError as error: answer = {"nvml": error.value}
    print(json.dumps(answer), flush=True)
"""


SOON_S = 60.0
"""At once on a quiet machine."""


class Program:
    """``ask`` evaluates there; an NVML error is ``{"nvml": code}``.

    ``n`` is pynvml, ``h(i)`` a handle; ``field``, ``fabric`` and ``sram`` are what they are called
    after.
    """

    def __init__(self, library: Path, state: Path) -> None:
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library.parent),
            "NVMLSIM_STATE": str(state),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SOURCE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        if self._line() != "ready\n":
            self.end()
            raise AssertionError("the program did not come up; see its traceback above")

    def ask(self, expression: str) -> Any:
        self.say(expression)
        return self.answer()

    def say(self, expression: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self._line())

    def sleeps_in(self, state: str) -> bool:
        """Within ``SOON_S`` it is in that state (one letter, as ps shows it)."""
        give_up = time.monotonic() + SOON_S
        while (seen := self._state()) != state and time.monotonic() < give_up:
            time.sleep(0.01)
        return seen == state

    def is_held(self) -> bool:
        """Within ``SOON_S`` something holds it as a tracer does: a signal cannot end it any more."""
        give_up = time.monotonic() + SOON_S
        while "TracerPid:\t0\n" in Path(f"/proc/{self.process.pid}/status").read_text():
            if time.monotonic() > give_up:
                return False
            time.sleep(0.01)
        return True

    def _state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdout, self.process.stdin):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()
