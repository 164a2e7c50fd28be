"""What the kernel says of a process, from files that never wait for that process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    start: int

    def alive(self, procfs: str = "/proc") -> bool:
        """Still the same process, and more than a zombie."""
        found = process_state(self.pid, procfs)
        return found is not None and found[1] == self.start and found[0] not in "ZX"


def process_state(pid: int, procfs: str = "/proc") -> tuple[str, int] | None:
    """(state letter, start time in ticks since boot), or None once the pid is gone (proc(5))."""
    try:
        text = Path(procfs, str(pid), "stat").read_text(errors="replace")
        rest = text.rsplit(")", 1)[1].split()
        return rest[0], int(rest[19])
    except (OSError, IndexError, ValueError):
        return None


def evidence_of(pid: int, procfs: str = "/proc") -> str:
    """Where a hung process sleeps. Only files that take no lock of that process's memory are
    read.
    """
    state = process_state(pid, procfs)
    said = [f"state {state[0]}" if state else "gone"]
    for name in ("wchan", "stack"):
        try:
            text = Path(procfs, str(pid), name).read_text(errors="replace")
        except OSError:
            continue
        words = [line.split()[-1] for line in text.splitlines() if line.split()][:4]
        if words and words != ["0"]:
            said.append(f"{name} {' < '.join(words)}")
    return ", ".join(said)
