"""Runs as a user on a node: misuses the user's socket to the agent in every way, as fast as possible.

python3 flood.py RUN_FOLDER SECONDS FOREIGN_JOB: prints a JSON object with the counts.
"""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

folder, until = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
claim = {"job": int(sys.argv[3]), "restarts": 0, "state": "finished", "at": time.time()}
words = [b"x", b"{" * 4096, b"z" * 60000, json.dumps(claim).encode(), b"\xff", b""]
counts = {"sent": 0, "queue full": 0, "taken": 0, "refused": 0, "others' sockets": 0}


def connect(path: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.setblocking(False)
    link.connect(os.fspath(path))
    return link


def hammer(first: int) -> None:
    held = []
    number = first
    while time.monotonic() < until:
        number += 1
        try:
            link = connect(folder / "sockets" / f"{os.getuid()}.sock")
            counts["sent"] += 1
            if number % 4 == 0:
                held.append(link)  # connected and silent
                continue
            link.send(words[number % len(words)])
            link.settimeout(0.05)
            counts["taken" if link.recv(200) == b"taken" else "refused"] += 1
        except BlockingIOError:
            counts["queue full"] += 1
            if counts["queue full"] % 100 == 0:
                time.sleep(0.001)
        except OSError:
            continue


for path in (folder / "sockets").iterdir():
    if path.stem != str(os.getuid()):
        try:
            connect(path)
            counts["others' sockets"] += 1
        except OSError:
            pass
threads = [threading.Thread(target=hammer, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.stdout.write(json.dumps(counts))
