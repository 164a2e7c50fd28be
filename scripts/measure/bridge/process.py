"""``holdfast bridge`` as a process of its own, and what its metrics and /proc say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path


class RunningBridge:
    """One bridge at a time, with the configuration ``config``. ``nodes``: how many Nodes there are."""

    def __init__(self, config: Path, port: int, log: Path, nodes: int):
        self._config, self._port, self._log, self._nodes = config, port, log, nodes
        self._process: subprocess.Popen[bytes] | None = None
        self._passes = 0.0
        self.token = ""
        """Of its account."""

    def start(self) -> None:
        argv = [sys.executable, "-m", "holdfast", "bridge", "--config", str(self._config)]
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *argv]  # it ends with the benchmark
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        self._passes = 0.0

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None  # noqa: S101 - started
        return self._process.pid

    @property
    def writes(self) -> float:
        return _total(self._metrics(), "holdfast_bridge_writes_total")

    @property
    def synced(self) -> bool:
        """All Nodes are listed, and a pass that began after that has planned nothing."""
        text = self._metrics()
        passes = _total(text, "holdfast_bridge_passes_total")
        if _total(text, 'holdfast_bridge_nodes{side="kubernetes"}') != self._nodes:
            self._passes = passes
            return False
        return passes > self._passes and not _total(text, "holdfast_bridge_planned_changes")

    def cpu_s(self, *, children: bool = True) -> float:
        """User and system time, with that of children that ended (sinfo and scontrol)."""
        return cpu_s(self.pid, children=children)

    def memory_mib(self, key: str = "VmRSS") -> float:
        """``VmRSS``: now; ``VmHWM``: the peak since the start."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.split(f"{key}:")[1].split()[0]) / 1024

    def _metrics(self) -> str:
        """Empty while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/metrics", timeout=30
            ) as page:
                return str(page.read().decode())
        except OSError:
            return ""


def cpu_s(pid: int, *, children: bool) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = sum(int(fields[i]) for i in ((11, 12, 13, 14) if children else (11, 12)))
    return ticks / float(os.sysconf("SC_CLK_TCK"))


def _total(text: str, prefix: str) -> float:
    """The sum of the series whose line begins so; -1 without one."""
    lines = [line for line in text.splitlines() if line.startswith(prefix)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines) if lines else -1.0
