"""PyTorch ``.pt`` and ``.pth`` files, as ``torch.save`` writes them.

Since torch 1.6 they are zip archives (stored, not compressed). The central directory is written
last, so a truncated file has none ("failed finding central directory"). ``NAME/data.pkl`` holds the
object, ``NAME/data/*`` the storages.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, cast

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import Limited, NotReadable, TooLarge
from slurm_hooks.job.checkpoints.candidate import Found, Framework
from slurm_hooks.job.checkpoints.frameworks import torch_legacy
from slurm_hooks.job.checkpoints.listing import Listing
from slurm_hooks.job.checkpoints.names import is_temporary

_LOCAL_HEADER = b"PK\x03\x04"
_MAX_PICKLE_BYTES = 64 << 20
_MAX_DIRECTORY_BYTES = 32 << 20
"""For a zip's central directory: about 300,000 tensors."""
_UNPACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods may expand a kilobyte to gigabytes in one call; torch uses the first."""


ENDS = (".pt", ".pth")


def fault(path: Path) -> str:
    """Why this file is not complete, or an empty string. Raises OSError."""
    try:
        file, size_bytes, _ = safe_file.open_regular(path)
    except NotReadable as error:
        return f"not a checkpoint: {error.strerror}"
    with file:
        if not size_bytes:
            return "empty file"
        start = file.read(4)
        if not start.strip(b"\0"):
            return "starts with zeros: its data was not written to disk"
        file.seek(0)
        limited = Limited(file, _MAX_DIRECTORY_BYTES + _MAX_PICKLE_BYTES)
        if start == _LOCAL_HEADER:
            return _zip_fault(cast("IO[bytes]", limited), size_bytes)
        return torch_legacy.fault(cast("IO[bytes]", limited), size_bytes)


def _zip_fault(file: IO[bytes], size_bytes: int) -> str:
    try:
        archive = zipfile.ZipFile(file)
    except OSError:
        raise
    except TooLarge:
        return "not a checkpoint: its central directory is larger than torch writes"
    except Exception as error:  # noqa: BLE001 - a broken zip can raise nearly anything
        return f"truncated: no central directory at its end ({error})"
    entries = archive.infolist()
    pickles = [entry for entry in entries if entry.filename.rsplit("/", 1)[-1] == "data.pkl"]
    if not pickles:
        return "a zip without data.pkl: not written by torch, or incomplete"
    for entry in entries:
        if not 0 <= entry.header_offset <= size_bytes - entry.compress_size:
            return f"{entry.filename} is beyond the end of the file"
    return _content_fault(
        archive, file, [pickles[0], max(entries, key=lambda entry: entry.header_offset)]
    )


def _content_fault(
    archive: zipfile.ZipFile, file: IO[bytes], sampled: list[zipfile.ZipInfo]
) -> str:
    """Checks the object and the last storage: a hole after a crash has no local header."""
    for entry in sampled:
        file.seek(entry.header_offset)
        if file.read(4) != _LOCAL_HEADER:
            return f"{entry.filename} has no header: the file has a hole"
    if sampled[0].compress_type not in _UNPACKED:
        return "data.pkl is compressed by a method that torch does not use"
    if sampled[0].file_size <= _MAX_PICKLE_BYTES:
        try:
            archive.read(sampled[0])
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return f"data.pkl cannot be read ({error})"
    return ""


def _files(listing: Listing) -> list[Found]:
    return [Found(name) for name in listing.files if is_one(name)]


def is_one(name: str) -> bool:
    """True for the name of a ``.pt`` file. x.pt.tmp counts as x.pt, which its writer would have made of it."""
    while is_temporary(name) and not name.endswith(ENDS) and "." in name.strip("."):
        name = name.rpartition(".")[0]
    return name.endswith(ENDS)


FRAMEWORK = Framework(name="torch", files=_files, fault=lambda candidate: fault(candidate.path))
