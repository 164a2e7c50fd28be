"""Finds the cause of a failure in the output of a job, while it is printed or afterwards. Pure.

The cause is the earliest line after which the job could not go on. What NCCL,
torchrun and srun print while a job fails is a consequence, and what training follows was no failure. In a
log with several attempts, the last attempt that shows a cause counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from slurm_hooks.job.diagnosis.attempt import Attempt, diagnosis_of
from slurm_hooks.job.diagnosis.lines.clock import last_time_before, time_in
from slurm_hooks.job.diagnosis.lines.line import Cause, Diagnosis, LogLine
from slurm_hooks.job.diagnosis.lines.places import Places, host_in, rank_in, ranks_in
from slurm_hooks.job.diagnosis.matching.match import match, search
from slurm_hooks.job.diagnosis.matching.scan import Found, Memory, Scanner
from slurm_hooks.job.signatures import Kind, Retry, Signature, Weight

__all__ = ["CLASS_OF", "RETRY_OF", "Cause", "Diagnosis", "Engine", "LogLine", "diagnose", "match"]

_TRUSTED_CLOCK = timedelta(minutes=2)
_DONE = "P00"
_WELL = "P07"


class Engine:
    """Reads the outputs of one job in pieces, each output in its order, and diagnoses at any time.

    ``launcher``    lines that begin as the launcher's own do are its own: False for the output of a
                    running program, which could print them too.
    ``rank_hosts``  rank → host, where it is known. Otherwise it is read from what NCCL prints.
    """

    def __init__(
        self, *, launcher: bool = True, rank_hosts: Mapping[int, str] | None = None
    ) -> None:
        self._memory = Memory(launcher=launcher)
        self._places = Places(rank_hosts=dict(rank_hosts or {}))
        self._outputs: dict[str, _Output] = {}
        self._order = 0
        self._has_possible = False

    def feed(self, file: str, data: bytes, at: datetime | None = None) -> None:
        """``at``: when it was printed, if that is known better than from the lines."""
        output = self._output(file)
        for found in output.scanner.feed(data, wants=self._wants_progress):
            self._take(file, output, found, at)
            self._has_possible = any(o.attempt.wants_progress for o in self._outputs.values())

    def end(self, file: str, at: datetime | None = None) -> None:
        """The output has ended, perhaps within a line."""
        output = self._output(file)
        for found in output.scanner.end(wants=self._wants_progress):
            self._take(file, output, found, at)
            self._has_possible = any(o.attempt.wants_progress for o in self._outputs.values())

    def diagnosis(self) -> Diagnosis:
        """The cause according to all lines so far."""
        chosen = [output.chosen() for output in self._outputs.values()]
        return diagnosis_of([attempt for attempt in chosen if attempt], self._places)

    def _wants_progress(self) -> bool:
        # Progress in one output retracts lines of the others. Without such lines it need not be read.
        return self._has_possible

    def _output(self, file: str) -> _Output:
        if file not in self._outputs:
            self._outputs[file] = _Output(self._memory)
        return self._outputs[file]

    def _take(self, file: str, output: _Output, found: Found, at: datetime | None) -> None:
        row, text = found.row, found.text
        if row is None:
            output.begin()
            return
        if row.kind is Kind.PLACE:
            output.note_place(self._places, text)
            return
        if row.kind is Kind.PROGRESS:
            self._progress(row, text)
            return
        output.note_crash(self._places, text)
        attempt = output.attempt
        attempt.count(row.code)
        if not attempt.wants(row.code) and row.code not in attempt.REPORTS:
            return
        self._order += 1
        line = LogLine(file=file, number=found.number, text=text)
        cause = self._cause(row, line)
        if row.code in attempt.REPORTS:
            attempt.report(cause)
        if attempt.wants(row.code):
            attempt.add(cause, _when(text, found.before, at), self._order)

    def _progress(self, row: Signature, text: str) -> None:
        found = search(row, text)
        named = found.groupdict() if found else {}
        step = named.get("step") or named.get("n") or text
        for output in self._outputs.values():
            if row.code == _DONE:
                output.attempt.finished()
            elif row.code == _WELL:
                output.attempt.ended_well()
            else:
                output.attempt.progressed(step)

    def _cause(self, row: Signature, line: LogLine) -> Cause:
        found = search(row, line.text)
        named = found.groupdict() if found else {}
        rank = named.get("rank")
        host = named.get("host") or named.get("node") or host_in(line.text)
        peer = named.get("peer")
        return Cause(
            signature=row,
            line=line,
            host=self._places.host_of(host) if host else None,
            rank=int(rank) if rank else rank_in(line.text),
            peer=self._places.host_of(peer) if peer else None,
            ranks=ranks_in(named.get("ranks") or named.get("task") or ""),
        )


class _Output:
    """One output: the attempt that it shows now, and the best one before."""

    def __init__(self, memory: Memory) -> None:
        self.scanner = Scanner(memory)
        self.attempt = Attempt()
        self._best: Attempt | None = None
        self._host = ""

    def begin(self) -> None:
        self._best = self.chosen()
        self.attempt = Attempt()

    def chosen(self) -> Attempt | None:
        """The last attempt that shows a cause, else the last one that shows anything."""
        now, best = self.attempt, self._best
        strong = Weight.POSSIBLE.value
        if best is None:
            return now
        if now.strength < strong and best.strength >= strong:
            return best
        return best if now.empty else now

    def note_place(self, places: Places, text: str) -> None:
        """torchrun prints the host and the rank of a failure on two lines."""
        found = _ELASTIC.match(text)
        if found is None:
            places.note(text)
        elif found["host"]:
            self._host = found["host"]
        elif self._host:
            places.note_failed(int(found["rank"]), self._host)

    def note_crash(self, places: Places, text: str) -> None:
        """The next line of the same table: exit code and process."""
        if self._host:
            places.note_crash(text, self._host)


_ELASTIC = re.compile(r"^.{0,80}?(?:host +: (?P<host>\S{1,253})|rank +: (?P<rank>\d{1,6}) \()")


def _when(text: str, before: bytes, at: datetime | None) -> datetime | None:
    stamp = time_in(text) or last_time_before(before)
    if at is None:
        return stamp
    # A time in the text is exact, but it may be that of another machine, or part of a message.
    if stamp and stamp.year == at.year and abs(at - stamp) < _TRUSTED_CLOCK:
        return stamp
    return at


def diagnose(lines: Iterable[LogLine]) -> Diagnosis:
    """The cause among lines in the order in which they were printed."""
    engine = Engine()
    files = []
    for line in lines:
        files.append(line.file)
        engine.feed(line.file, line.text.encode("utf-8", "surrogateescape") + b"\n")
    for file in dict.fromkeys(files):
        engine.end(file)
    return engine.diagnosis()


CLASS_OF: dict[Kind, str] = {
    Kind.GPU: "hardware",
    Kind.HOST: "hardware",
    Kind.NETWORK: "network",
    Kind.COLLECTIVE_TIMEOUT: "network",
    Kind.STORAGE: "storage",
    Kind.CHECKPOINT: "storage",
    Kind.HANG: "infrastructure",
    Kind.ENVIRONMENT: "infrastructure",
    Kind.HOST_MEMORY: "application",
    Kind.GPU_MEMORY: "application",
    Kind.DATA: "application",
    Kind.NUMERIC: "application",
    Kind.CODE: "user",
    Kind.SCHEDULER: "scheduler",
    Kind.CASCADE: "unknown",
    Kind.PROGRESS: "unknown",
    Kind.PLACE: "unknown",
}
"""The class that ``holdfast diagnose`` prints."""

RETRY_OF: dict[Retry, str] = {
    Retry.PLAIN: "same",
    Retry.ONCE: "same",
    Retry.AFTER_A_WHILE: "same",
    Retry.ROLLED_BACK: "same",
    Retry.UNDECIDED: "same",
    Retry.EXCLUDING: "exclude",
    Retry.NEVER: "hold",
    Retry.NOT_AT_ALL: "fail",
}
