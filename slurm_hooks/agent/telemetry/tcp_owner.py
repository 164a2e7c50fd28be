"""The user whose process is at the other end of a local TCP connection, as the kernel reports it.

One netlink query about exactly this connection (sock_diag(7)); it takes microseconds, however many
connections there are.
"""

from __future__ import annotations

import socket
import struct

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_ANY_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_UID_AT = _HEADER.size + 4 + 48 + 12
"""struct inet_diag_msg: family to retrans, the socket's names, expires to wqueue, then the uid
(linux/inet_diag.h)."""


def owner(accepted: socket.socket) -> int | None:
    """The uid of the process that connected over IPv4; None if the kernel does not report it."""
    try:
        mine, theirs = accepted.getsockname(), accepted.getpeername()
        names = struct.pack(">HH", theirs[1], mine[1]) + _address(theirs[0]) + _address(mine[0])
        names += struct.pack("=III", 0, _ANY_COOKIE, _ANY_COOKIE)
        body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + names
        size = _HEADER.size + len(body)
        head = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.send(head + body)
            reply = netlink.recv(4096, socket.MSG_DONTWAIT)
    except OSError:
        return None
    if len(reply) < _UID_AT + 4 or _HEADER.unpack_from(reply)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    return int(struct.unpack_from("=I", reply, _UID_AT)[0])


def _address(text: str) -> bytes:
    return socket.inet_aton(text).ljust(16, b"\0")
