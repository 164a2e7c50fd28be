"""Prints as JSON the seconds of whole processes: ``sh -c :`` and the prolog hook, in turn."""

from __future__ import annotations

import json
import os
import sys
import time

HOOK_ENV = {"SLURMD_NODENAME": os.uname().nodename, "SLURM_JOB_ID": "1", "SLURM_JOB_UID": "2001"}
"""Slurm gives a prolog no PATH."""


def seconds(argv: list[str]) -> float:
    """Seconds of one process; ``SystemExit`` unless its status is valid for a hook."""
    begin = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, HOOK_ENV)
    status = os.waitpid(pid, 0)[1]
    took = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) not in (0, 10):  # healthy, or known to be bad
        raise SystemExit(f"{argv[0]}: status {status}")
    return took


def main() -> None:
    times: dict[str, list[float]] = {"floor": [], "prolog": []}
    for _ in range(int(sys.argv[1])):
        times["floor"].append(seconds(["/bin/sh", "-c", ":"]))
        times["prolog"].append(seconds(["/opt/holdfast/hooks/prolog"]))
    print(json.dumps(times))


if __name__ == "__main__":
    main()
