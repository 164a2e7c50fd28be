"""Prints JSON lines (sequence number, seconds from a kernel record to its reader) until ``END`` exists."""

from __future__ import annotations

import json
import select
import time
from pathlib import Path

from holdfast.config.path import config_path
from holdfast.config.schema import load_cluster
from slurm_hooks.probes.kmsg.follower import KmsgFollower

END = Path("/mnt/training/bench/follow.end")


def main() -> None:
    follower = KmsgFollower(load_cluster(config_path()).paths.kmsg)
    follower.read()
    poll = select.poll()
    poll.register(follower.fd, select.POLLIN)
    while not END.exists():
        poll.poll(200)
        now_s = time.monotonic()
        for record in follower.read():
            print(json.dumps([record.seq, max(0.0, now_s - record.at_s)]), flush=True)


if __name__ == "__main__":
    main()
