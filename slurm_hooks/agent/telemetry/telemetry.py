"""The agent's history and metrics. They come after the verdict and never delay it (rule 8): nothing
here waits, and no failure here stops the agent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from holdfast.adapters.log import Log
from holdfast.adapters.state_file import write_atomic
from holdfast.config.kill_switch_files import switches_off
from holdfast.vocabulary import Status
from slurm_hooks.agent import own_log, systemd
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus
from slurm_hooks.agent.telemetry.history_events import HistoryEvents
from slurm_hooks.agent.telemetry.http_server import MetricsServer
from slurm_hooks.agent.telemetry.metrics import AgentCounts, AgentSnapshot, text_of
from slurm_hooks.agent.telemetry.recorder import Recorder
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import NodeFacts
from slurm_hooks.settings.settings import Settings
from slurm_hooks.tracking.node import TrackedState
from slurm_hooks.worker.worker import Worker

log = Log("agent")

FILE = "metrics.prom"
"""In ``paths.run``; node_exporter's textfile collector requires this suffix."""

_WATCHDOG_S = 5.0
"""Between two watchdog messages to systemd. The loop runs at least once a second."""


class Telemetry:
    """``before_and_kept``: the state that an earlier agent left, and what of it is valid in this
    boot. ``crashed``: that agent did not stop cleanly.
    """

    def __init__(
        self,
        node: str,
        boot_id: str,
        config: Settings,
        before_and_kept: tuple[TrackedState, TrackedState],
        *,
        crashed: bool,
    ) -> None:
        paths = config.cluster.paths
        self.recorder = Recorder(
            paths.history_folder,
            node,
            boot_id,
            spool=paths.state / "history.spool",
            max_bytes=config.agent.history_max_bytes,
            stuck=paths.run / "stuck",
        )
        self._history_events = HistoryEvents(
            self.recorder, *before_and_kept, config.node.expected_gpus
        )
        self._config_path = config.path
        self._history_events.started(crashed=crashed, switches=self._switches())
        self._node, self._path = node, paths.run / FILE
        self._counts = AgentCounts(
            started_at=time.time(),
            events=self.recorder.noted,
            config_problems=len(config.problems),
        )
        self._text = ""
        agent = config.agent
        self._server = MetricsServer(agent.metrics_port, lambda: self._text, agent.metrics_host)
        self._problem = ""
        self._next_watchdog = 0.0

    @property
    def workers(self) -> list[Worker]:
        return self.recorder.workers

    @property
    def next_at(self) -> float:
        return min(self.recorder.next_at, self._server.next_at)

    def fds(self) -> Iterator[tuple[int, int]]:
        """The metrics server's sockets."""
        return self._server.fds()

    def turn(self, now: float) -> bool:
        self.recorder.turn(now)
        self._server.turn(now)
        if now >= self._next_watchdog:
            systemd.watchdog()
            own_log.keep_small()
            self._next_watchdog = now + _WATCHDOG_S
        return False

    def passed(self, facts: NodeFacts, pass_s: float) -> None:
        """A pass over the probes ended; it took ``pass_s``."""
        self._counts.passes += 1
        self._counts.pass_seconds += max(0.0, pass_s)
        self._counts.last_pass_at = time.time()
        self._history_events.record_gpus(facts.gpus)
        self._history_events.record_switches(self._switches())

    def _switches(self) -> frozenset[str]:
        """Hidden files do not count (Kubernetes adds some to a mount)."""
        names = switches_off(self._config_path)
        return frozenset(name for name in names if not name.startswith("."))

    def refused(self, problems: int) -> None:
        """A new configuration is invalid; it has so many problems."""
        self._counts.config_problems = problems

    def update(
        self,
        opened: Sequence[OpenFinding],
        facts: NodeFacts,
        published: tuple[Status, SlurmStatus],
        wanted: Iterable[str],
        entries: Iterable[AuditEntry],
    ) -> None:
        """Record the changes and write the metrics. ``published``: the status just published, and
        the node's state in Slurm."""
        status, slurm_status = published
        self._history_events.record_findings(opened)
        self._history_events.record_changes(entries, slurm_status)
        self._text = text_of(
            AgentSnapshot(
                node=self._node,
                status=status,
                slurm_status=slurm_status,
                opened=opened,
                facts=facts,
                wanted=frozenset(wanted),
                counts=self._counts,
                unwritten=self.recorder.pending,
                failures=self.recorder.failures,
            )
        )
        self._write()

    def record_end(self, *, restart: bool) -> None:
        """The agent is about to stop, or to restart."""
        self._history_events.ended(restart=restart)

    def close(self) -> None:
        self._server.close()
        self.recorder.close()

    def _write(self) -> None:
        problem = ""
        try:
            write_atomic(self._path, self._text, durable=False)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem and problem != self._problem:
            log.error("metrics not written", why=problem)
        self._problem = problem
