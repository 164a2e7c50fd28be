"""One half of a network test between two nodes of a job. Its argument: PEERS.

The launcher runs it by ``srun --overlap`` as the job's user, first where PEERS is ``{}`` (these nodes listen and
print their address), then on their partners with ``{"NODE": ["ADDRESS", PORT]}``. Both sides prove that they know
a token, then each sends the other 64 MiB. The token comes in the environment, which other users cannot read.
"""

from __future__ import annotations

import hmac
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence

MARK = "holdfast-pair "
TOKEN = "HOLDFAST_PAIR_TOKEN"  # noqa: S105 - the name of a variable
_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20
_PARTNER_S = 30.0
"""How long to wait for the partner, whose program starts later."""
_TRANSFER_S = 20.0
_HELLO_S = 5.0
_POLL_S = 0.05
_MOST_THREADS = 256
_PROOF_BYTES = 32


def own_address(launcher: str) -> str:
    """This node's address on the network on which it reaches the launcher's node. Sends nothing."""
    kind = socket.AF_INET6 if ":" in launcher else socket.AF_INET
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect((launcher, 9))
        return str(probe.getsockname()[0])


def listen(address: str) -> socket.socket:
    """A listening socket on any free port of the address."""
    return socket.create_server((address, 0), family=_family(address), backlog=16)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(server: socket.socket, token: bytes, partner_s: float = _PARTNER_S) -> str:
    """Waits for the partner and exchanges data with it. The problem, empty if all went well.

    Other users can connect too. Each connection has a thread of its own until it has proved what it is, so
    that one that says nothing delays nobody.
    """
    end = time.monotonic() + partner_s
    partners: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
    while (left_s := end - time.monotonic()) > 0:
        server.settimeout(min(left_s, _POLL_S))
        try:
            link, _ = server.accept()
        except OSError:  # mostly: nobody has connected
            pass
        else:
            _greet(link, token, partners)
        if not partners.empty():
            with partners.get() as partner:
                return _exchange(partner)
    return "no connection from the partner"


def _greet(link: socket.socket, token: bytes, partners: queue.SimpleQueue[socket.socket]) -> None:
    """Starts to find out whether this is the partner."""

    def ask() -> None:
        if _is_partner(link, token):
            partners.put(link)
        else:
            link.close()

    if threading.active_count() > _MOST_THREADS:
        link.close()
        return
    threading.Thread(target=ask, daemon=True).start()


def call(address: str, port: int, token: bytes) -> str:
    """Connects to the partner and exchanges data with it. The problem, empty if all went well."""
    try:
        with socket.create_connection((address, port), timeout=_TRANSFER_S) as link:
            link.sendall(_proof(token, b"client"))
            if not hmac.compare_digest(_received(link, _PROOF_BYTES), _proof(token, b"server")):
                return "the partner's answer is wrong"
            return _exchange(link)
    except OSError as error:
        return f"connection to the partner: {error.strerror or error}"


def _is_partner(link: socket.socket, token: bytes) -> bool:
    link.settimeout(_HELLO_S)
    try:
        if not hmac.compare_digest(_received(link, _PROOF_BYTES), _proof(token, b"client")):
            return False
        link.sendall(_proof(token, b"server"))
    except OSError:
        return False
    return True


def _proof(token: bytes, side: bytes) -> bytes:
    return hmac.digest(token, side, "sha256")


def _received(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = link.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


def _exchange(link: socket.socket) -> str:
    """Sends and receives at the same time."""
    link.settimeout(_TRANSFER_S)
    end = time.monotonic() + _TRANSFER_S
    problems = [""]
    sender = threading.Thread(target=_send, args=(link, end, problems), daemon=True)
    sender.start()
    left, buffer = _BYTES, bytearray(_BLOCK_BYTES)
    try:
        while left > 0 and time.monotonic() < end:
            count = link.recv_into(buffer, min(left, _BLOCK_BYTES))
            if not count:
                break
            left -= count
    except OSError as error:
        return f"receiving: {error.strerror or error}"
    sender.join(max(0.1, end - time.monotonic()))
    if left > 0 or sender.is_alive():
        return f"{(_BYTES - left) >> 20} of {_BYTES >> 20} MiB within {_TRANSFER_S:g} s"
    return problems[0]


def _send(link: socket.socket, end: float, problems: list[str]) -> None:
    block, left = bytes(_BLOCK_BYTES), _BYTES
    try:
        while left > 0 and time.monotonic() < end:
            link.sendall(block)
            left -= len(block)
    except OSError as error:
        problems[0] = f"sending: {error.strerror or error}"


def _say(node: str, **facts: object) -> None:
    sys.stdout.write(f"{MARK}{json.dumps({'node': node, **facts})}\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the address of a listening node and the result; exits 0."""
    (text,) = sys.argv[1:] if argv is None else argv
    peers = json.loads(text)
    node, token = os.environ.get("SLURMD_NODENAME", ""), os.environ.get(TOKEN, "").encode()
    if not token:
        return 0
    if peers:
        address, port = peers[node]
        _say(node, problem=call(address, port, token))
        return 0
    try:
        address = own_address(os.environ.get("SLURM_LAUNCH_NODE_IPADDR", ""))
        server = listen(address)
    except OSError as error:
        _say(node, problem=f"cannot listen: {error.strerror or error}")
        return 0
    with server:
        _say(node, listens=[address, server.getsockname()[1]])
        _say(node, problem=serve(server, token))
    return 0


if __name__ == "__main__":
    sys.exit(main())
