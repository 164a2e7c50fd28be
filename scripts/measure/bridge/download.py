"""The least that a client of the API server does: a process that reads all Nodes and decodes none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """
import http.client, ssl, sys
host, port, ca, cert, key = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.load_cert_chain(cert, key)
connection = http.client.HTTPSConnection(host, int(port), context=context)
connection.request("GET", "/api/v1/nodes", headers={"Accept": "application/vnd.kubernetes.protobuf"})
answer, buffer, total = connection.getresponse(), bytearray(1 << 20), 0
while size := answer.readinto(buffer):
    total += size
print(answer.status, total)
"""


def download(access: Sequence[str]) -> int:
    """The bytes of one LIST in protobuf. ``access``: host, port, and the files of the authority, the
    certificate and the key."""
    argv = [sys.executable, "-I", "-c", _PROGRAM, *access]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    status, size = map(int, done.stdout.split())
    if status != 200:
        raise RuntimeError(f"the API server answered {status} to a LIST")
    return size
