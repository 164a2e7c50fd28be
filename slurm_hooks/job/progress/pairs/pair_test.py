"""After the second timeout that names no rank: the job's nodes are tested in pairs, and a node that fails
with two partners is avoided.

The test sends data over the network of the nodes' addresses, by TCP. It finds a node that the others do not
reach, or hardly; InfiniBand and GPUs are tested by ``holdfast inspect``, on nodes without a job.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from holdfast.slurm.hostlist import compress
from slurm_hooks.active import pairs
from slurm_hooks.active.pairs import Pair, Wave
from slurm_hooks.active.result import CheckOutcome
from slurm_hooks.job.diagnosis.lines.line import Cause
from slurm_hooks.job.progress.pairs.pair_on_node import MARK, TOKEN
from slurm_hooks.job.signatures import Kind
from slurm_hooks.job.step.overlap_step import environment, overlapping, python_code

_TIMEOUTS = frozenset({Kind.COLLECTIVE_TIMEOUT, Kind.HANG})
_LEAST_NODES = 3
"""Of two nodes nothing shows which one fails."""
_PARTNERS = 2
_LISTEN_S = 20.0
_RESULT_S = 40.0
_ALL_S = 300.0
_MAX_BYTES = 1 << 20
_POLL_S = 0.1

Outcomes = dict[Pair, CheckOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTest:
    """``failed``: nodes that failed with two partners and passed with none, and with whom. ``tested``: how
    many pairs gave a result."""

    failed: Mapping[str, tuple[str, ...]]
    tested: int


def is_due(
    cause: Cause | None, *, suspects: bool, progressed: bool | None, before: str, nodes: int
) -> bool:
    """Whether the nodes must be tested now. ``before``: fingerprint of the last attempt if it failed without
    a newer checkpoint, else empty."""
    if cause is None or cause.signature.kind not in _TIMEOUTS or suspects or progressed:
        return False
    return nodes >= _LEAST_NODES and before.split(":")[0] == cause.signature.code


def judge(first: Outcomes, second: Outcomes) -> PairTest:
    """More than half of the nodes: the network failed, or the test, and no node is to blame. Pure."""
    failed: dict[str, set[str]] = defaultdict(set)
    passed: set[str] = set()
    for pair, outcome in [*first.items(), *second.items()]:
        if outcome is CheckOutcome.PASSED:
            passed.update(pair)
        elif outcome is CheckOutcome.FAILED:
            failed[pair[0]].add(pair[1])
            failed[pair[1]].add(pair[0])
    bad = {
        node: tuple(sorted(partners))
        for node, partners in sorted(failed.items())
        # One failed pair blames two nodes equally; only a second partner tells which of them it
        # is.
        if len(partners) >= _PARTNERS and node not in passed
    }
    nodes = {node for pair in first for node in pair}
    outcomes = [*first.values(), *second.values()]
    tested = sum(outcome is not CheckOutcome.ERROR for outcome in outcomes)
    # No more than half of them may be blamed.
    return PairTest(failed=bad if 2 * len(bad) <= len(nodes) else {}, tested=tested)


def text(test: PairTest) -> str:
    """The result in one line."""
    if not test.tested:
        return "pairs of nodes: the test could not run"
    if not test.failed:
        return f"pairs of nodes: {test.tested} tested, none of the nodes is to blame"
    found = (f"{node} failed with {' and '.join(with_)}" for node, with_ in test.failed.items())
    return f"pairs of nodes: {'; '.join(found)}"


def run(job_id: int, nodes: Sequence[str], is_over: Callable[[], bool]) -> PairTest:
    """Tests the nodes of the job; some seconds if all is well, five minutes at most. ``is_over``: the job is
    ending."""
    end = time.monotonic() + _ALL_S
    token = secrets.token_hex(16)

    def waves(planned: Sequence[Wave]) -> Outcomes:
        found: Outcomes = {}
        for wave in planned:
            if time.monotonic() < end and not is_over():
                found.update(_Wave(job_id, wave, token, is_over).run())
        return found

    first = waves(pairs.first_round(nodes))
    return judge(first, waves(pairs.second_round(first)))


class _Wave:
    """Pairs that are tested at the same time: the first node of each listens, the second one connects."""

    def __init__(self, job_id: int, wave: Wave, token: str, is_over: Callable[[], bool]) -> None:
        self._job_id, self._wave, self._is_over = job_id, wave, is_over
        # In the environment, because every user of the node can read a command line.
        self._env = {**environment(os.environ), TOKEN: token}

    def run(self) -> Outcomes:
        with tempfile.TemporaryFile() as heard, tempfile.TemporaryFile() as called:
            servers = self._start([pair[0] for pair in self._wave], {}, heard)
            clients = None
            try:
                peers = self._peers(servers, heard)
                if peers:
                    clients = self._start(list(peers), peers, called)
                _wait(_RESULT_S if clients else 0.0, self._is_over, servers, clients)
            finally:
                _end(servers, clients)
            return outcomes(self._wave, {**_results(heard), **_results(called)})

    def _peers(
        self, servers: subprocess.Popen[bytes] | None, heard: IO[bytes]
    ) -> dict[str, tuple[str, int]]:
        """The second node of each pair whose first node listens → where."""
        end = time.monotonic() + _LISTEN_S
        while True:
            listens = _listening(_records(heard))
            ended = servers is None or servers.poll() is not None or self._is_over()
            if len(listens) == len(self._wave) or ended or time.monotonic() > end:
                return {pair[1]: listens[pair[0]] for pair in self._wave if pair[0] in listens}
            time.sleep(_POLL_S)

    def _start(
        self, nodes: Sequence[str], peers: Mapping[str, tuple[str, int]], output: IO[bytes]
    ) -> subprocess.Popen[bytes] | None:
        argv = overlapping(self._job_id, len(nodes), nodes=compress(sorted(nodes)))
        argv += python_code("slurm_hooks.job.progress.pairs.pair_on_node", [json.dumps(peers)])
        null = subprocess.DEVNULL
        try:
            return subprocess.Popen(argv, env=self._env, stdin=null, stdout=output, stderr=null)
        except OSError:
            return None


def outcomes(wave: Wave, results: Mapping[str, str]) -> Outcomes:
    """``results``: node → its problem, empty: none. A node without a result fails where its partner has
    one; where no node of the wave has one, the test could not run. Pure."""
    found = {}
    for pair in wave:
        got = [results[node] for node in pair if node in results]
        if not results:
            found[pair] = CheckOutcome.ERROR
        elif len(got) == len(pair) and not any(got):
            found[pair] = CheckOutcome.PASSED
        else:
            found[pair] = CheckOutcome.FAILED
    return found


def _records(output: IO[bytes]) -> list[dict[str, object]]:
    # From the beginning each time, without moving the offset at which srun writes.
    data = os.pread(output.fileno(), _MAX_BYTES, 0).decode("utf-8", "replace")
    found = []
    for line in data.splitlines():
        if line.startswith(MARK):
            try:
                record = json.loads(line[len(MARK) :])
            except (ValueError, RecursionError):
                continue
            # The job's own tasks can write to this output, too.
            if isinstance(record, dict) and isinstance(record.get("node"), str):
                found.append(record)
    return found


def _listening(records: Sequence[Mapping[str, object]]) -> dict[str, tuple[str, int]]:
    found = {}
    for record in records:
        match record.get("listens"):
            case [str() as address, int() as port]:
                found[str(record["node"])] = (address, port)
            case _:
                continue
    return found


def _results(output: IO[bytes]) -> dict[str, str]:
    return {
        str(record["node"]): str(record["problem"])
        for record in _records(output)
        if "problem" in record
    }


def _wait(
    seconds: float, is_over: Callable[[], bool], *started: subprocess.Popen[bytes] | None
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not is_over():
        if all(srun is None or srun.poll() is not None for srun in started):
            return
        time.sleep(_POLL_S)


def _end(*started: subprocess.Popen[bytes] | None) -> None:
    for srun in started:
        if srun is not None and srun.poll() is None:
            srun.terminate()
            try:
                srun.wait(5.0)
            except subprocess.TimeoutExpired:
                srun.kill()
                srun.wait()
