"""``holdfast diagnose LOG …``: finds the cause of a job's failure in its logs."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO

from holdfast.adapters import safe_file
from holdfast.cli.console import complain, say, say_json
from slurm_hooks.job.diagnosis import flight_recorder
from slurm_hooks.job.diagnosis.causes import CLASS_OF, RETRY_OF, Diagnosis, Engine
from slurm_hooks.job.signatures import Kind

_EPILOG = """example:
  holdfast diagnose slurm-4711.out
  holdfast diagnose --json train-*.err /var/log/kern.log
  zcat old.log.gz | holdfast diagnose -

A LOG is a regular file, or - for standard input. Root does not follow symbolic links of other users.
Keys of --json: cause {code, class, text, file, line, host, rank}, retry, suspects, others.
class: hardware, network, storage, infrastructure, application, user, scheduler or unknown.
retry: same (on the same nodes), exclude (on other nodes), hold (a person must decide), fail (no retry).

exit status: 0 a cause was found, 1 no cause was found, 2 a LOG cannot be read."""

_READ_BYTES = 256 << 10
_MAX_DUMP_BYTES = 32 << 20
_MAX_BYTES = 16 << 30
"""Takes minutes to read. A user can create a sparse file of any size."""
_OWN_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,6})")

_ENDED = re.compile(r"DUE TO (?:TIME LIMIT|PREEMPTION|JOB REQUEUE)")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast diagnose",
        description="Find the line that explains a job's failure.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="the job's output, one or more files; - is standard input",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the cause of a failure."""
    args = parser().parse_args(argv)
    engine = Engine()
    dumps: dict[int, flight_recorder.Pending] = {}
    for name in args.logs:
        try:
            blocks = _blocks(name)
            first = next(blocks, b"")
            rank = flight_recorder.rank_of(name)
            if first.startswith(flight_recorder.FIRST_BYTES) and rank is not None:
                found_in_dump = flight_recorder.pending(_whole(first, blocks))
                if found_in_dump is not None:
                    dumps[rank] = found_in_dump
                continue
            for block in chain((first,), blocks):
                engine.feed(name, block)
            engine.end(name)
        except OSError as error:
            complain(f"holdfast diagnose: {name}: {error.strerror}; give a log that you can read")
            return 2
    awaited = flight_recorder.awaited(dumps)
    if awaited:
        engine.feed("flight recorder", f"{flight_recorder.line(awaited)}\n".encode())
    found = engine.diagnosis()
    say_json(record(found)) if args.json else say(_text(found))
    return 0 if found.cause else 1


def _blocks(name: str) -> Iterator[bytes]:
    """The content of a log. Raises ``OSError``. A pipe is read only if it is an open file of the caller."""
    file: IO[bytes]
    left = _MAX_BYTES
    descriptor = _own_descriptor(name)
    if descriptor is not None:
        file = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    else:
        file, left, _ = safe_file.open_regular(Path(name), buffer_bytes=0)
        if left > _MAX_BYTES:
            file.close()
            raise safe_file.not_readable(f"larger than {_MAX_BYTES >> 30} GiB", Path(name))
    with file:
        # Not more than there was at first: somebody else may append faster than this reads.
        while left > 0 and (block := file.read(min(left, _READ_BYTES))):
            left -= len(block)
            yield block


def _whole(first: bytes, blocks: Iterator[bytes]) -> bytes:
    """A dump; of one that is too large only the beginning, which is none."""
    data = bytearray(first)
    for block in blocks:
        data += block
        if len(data) > _MAX_DUMP_BYTES:
            break
    return bytes(data)


def _own_descriptor(name: str) -> int | None:
    """The file descriptor that a name such as ``/dev/stdin`` stands for."""
    if name in ("-", "/dev/stdin"):
        return 0
    match = _OWN_DESCRIPTOR.fullmatch(name)
    return int(match[1]) if match else None


def retry_of(found: Diagnosis) -> str:
    """same, exclude, hold or fail. Without a known cause the job is retried."""
    if found.cause is None:
        return "same"
    if found.cause.signature.kind is Kind.SCHEDULER and _ENDED.search(found.cause.line.text):
        return "fail"
    return RETRY_OF[found.cause.signature.retry]


def record(found: Diagnosis) -> dict[str, object]:
    """The diagnosis as JSON. Without a cause its code is UNKNOWN."""
    cause = found.cause
    return {
        "cause": {
            "code": cause.signature.code if cause else "UNKNOWN",
            "class": CLASS_OF[cause.signature.kind] if cause else "unknown",
            "text": cause.line.text.strip() if cause else "",
            "file": cause.line.file if cause else None,
            "line": cause.line.number if cause else None,
            "host": cause.host if cause else None,
            "rank": cause.rank if cause else None,
        },
        "retry": retry_of(found),
        "suspects": list(found.suspects),
        "others": [{"code": code, "lines": count} for code, count in found.others.items()],
    }


def _text(found: Diagnosis) -> str:
    cause = found.cause
    if cause is None:
        return "no cause found; retry is safe"
    where = f"{cause.line.file}:{cause.line.number}"
    origin = [f"host {cause.host}"] if cause.host else []
    origin += [f"rank {cause.rank}"] if cause.rank is not None else []
    lines = [
        f"{cause.signature.code} ({CLASS_OF[cause.signature.kind]}) {' '.join([where, *origin])}",
        f"  {cause.line.text.strip()}",
        f"retry: {retry_of(found)}"
        + (f", suspect: {', '.join(found.suspects)}" if found.suspects else ""),
    ]
    if found.others:
        lines.append(
            "also: " + ", ".join(f"{count} x {code}" for code, count in found.others.items())
        )
    return "\n".join(lines)
