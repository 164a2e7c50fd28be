"""Errors of a filesystem that go away by themselves, as during an outage of the file server."""

from __future__ import annotations

import errno
import os

TRANSIENT = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.EREMOTEIO,
        errno.ECOMM,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ECONNRESET,
        errno.ECONNREFUSED,
        errno.ECONNABORTED,
        errno.EAGAIN,
    }
)
"""What NFS, Lustre and FUSE report while their server does not answer. Not ENOENT and EACCES, which a
person has to correct."""
_TEXTS = tuple(os.strerror(number) for number in TRANSIENT)


def is_transient(error: OSError) -> bool:
    return error.errno in TRANSIENT


def names_transient(reason: str) -> bool:
    """Whether the reason for which a checkpoint was rejected is such an error."""
    return reason.endswith(_TEXTS)
