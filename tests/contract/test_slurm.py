"""The fakes of Slurm in the unit tests handle drains as slurmctld does.

Each test runs on the bridge's fake, on the agent's, and through the real adapter on a real slurmctld
(in a sandbox box, which needs root). A fake that fails here makes its unit tests worth nothing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from testbed.box import Box
from testbed.namespaces import enter

from holdfast.errors import Refused, Unavailable
from holdfast.slurm.cli import ENV, SlurmCli
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.pyslurm.client import SlurmPyslurm
from holdfast.slurm.rest_client import SlurmRest
from holdfast.vocabulary import NodeState, SlurmName
from tests.e2e import cluster
from tests.unit.k8s_bridge.fake_cluster import HUMAN, Clock, FakeSlurm
from tests.unit.property.fake_node import Slurmctld

NODE = SlurmName("worker-1")


class Drains(Protocol):
    """The tested calls: those with which nodes leave and return to service."""

    def nodes(self, names: Sequence[SlurmName]) -> list[SlurmNode]: ...
    def drain(self, names: Sequence[SlurmName], reason: str) -> None: ...
    def undrain(self, names: Sequence[SlurmName]) -> None: ...


class Side(ABC):
    """A Slurm, and a person who changes it without Holdfast."""

    slurm: Drains

    @abstractmethod
    def human_drains(self, reason: str) -> None: ...

    @abstractmethod
    def human_undrains(self) -> None: ...

    @property
    def node(self) -> SlurmNode:
        (found,) = self.slurm.nodes([NODE])
        return found


class BridgesFake(Side):
    def __init__(self) -> None:
        self.slurm = self._fake = FakeSlurm(Clock())
        for index in range(4):
            self._fake.add(f"worker-{index}", f"computeinstance-{index}")

    def human_drains(self, reason: str) -> None:
        self._fake.set_drain(NODE, reason, HUMAN)

    def human_undrains(self) -> None:
        self._fake.clear_drain(NODE)


class AgentsFake(Side):
    def __init__(self) -> None:
        self.slurm = self._fake = Slurmctld()

    def human_drains(self, reason: str) -> None:
        self._fake.set_drain(NODE, reason, "anna", "human")

    def human_undrains(self) -> None:
        self._fake.clear_drain(NODE)


class Real(Side):
    """The adapter itself; only its programs are entered into the box."""

    slurm: SlurmCli

    def __init__(self, box: Box, tools: Path, timeout_s: float = 30):
        self._box, self.tools, self._timeout_s = box, tools, timeout_s
        for tool in ("scontrol", "sinfo", "sdiag"):
            argv = self._inside(f"/usr/bin/{tool}")
            (tools / tool).write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
            (tools / tool).chmod(0o755)
        self.slurm = self._adapter()

    def _adapter(self) -> SlurmCli:
        return SlurmCli(self._timeout_s, str(self.tools))

    def _inside(self, *argv: str) -> list[str]:
        env = {name: value for name, value in ENV.items() if value is not None}
        return enter.argv_in(self._box.pid, argv, user="root", cwd="/", env=env)

    def human_drains(self, reason: str) -> None:
        self._update("state=drain", f"reason={reason}")

    def human_undrains(self) -> None:
        self._update("state=undrain")

    def _update(self, *words: str) -> None:
        self._box.run(["scontrol", "update", f"nodename={NODE}", *words])

    @contextlib.contextmanager
    def job_on(self, node: SlurmName) -> Iterator[None]:
        """A job that runs on one CPU of the node."""
        argv = ["sbatch", "--parsable", "-w", node, "-n1", "--wrap", "sleep 300", "-o", "/dev/null"]
        job = self._box.run(argv, user="alice").stdout.strip()
        cluster.wait_for(lambda: self.slurm.nodes([node])[0].busy, f"a job on {node}", 30)
        try:
            yield
        finally:
            self._box.run(["scancel", job])


class RealPyslurm(Real):
    """The adapter over pyslurm; its worker process and its programs are entered into the box."""

    slurm: SlurmPyslurm

    def _adapter(self) -> SlurmPyslurm:
        worker = ("/opt/holdfast/bin/python", "-I", "-m", "holdfast.slurm.pyslurm.worker")
        return SlurmPyslurm(self._timeout_s, str(self.tools), worker=self._inside(*worker))


class RealRest(Real):
    """The adapter over slurmrestd, as the bridge's user: over its socket, which a path of the box names."""

    slurm: SlurmRest

    def _adapter(self) -> SlurmRest:
        argv = ["scontrol", "token", "username=holdfast", "lifespan=600"]
        self.token_file = self.tools / "token"
        self.token_file.write_text(self._box.run(argv).stdout)
        return self.with_limit(self._timeout_s)

    def with_limit(self, timeout_s: float) -> SlurmRest:
        url = f"unix:{self._box.path('/run/slurmrestd/socket')}"
        return SlurmRest(timeout_s, url, str(self.token_file), str(self.tools))


class Contract:
    """The tests; each subclass sets the side."""

    def test_a_drain_has_a_reason_an_author_and_a_whole_second(self, side: Side) -> None:
        side.slurm.drain([NODE], "contract: one")
        node = side.node
        assert node.drained_flag
        assert (node.reason, bool(node.reason_user)) == ("contract: one", True)
        assert node.reason_at is not None
        assert node.reason_at.utcoffset() == timedelta(0)
        assert node.reason_at.microsecond == 0

    def test_the_end_of_a_drain_takes_reason_author_and_time_along(self, side: Side) -> None:
        side.slurm.drain([NODE], "contract: one")
        side.slurm.undrain([NODE])
        node = side.node
        assert not node.drained_flag
        assert (node.reason, node.reason_user, node.reason_at) == ("", "", None)

    def test_a_later_drain_overwrites_the_reason(self, side: Side) -> None:
        side.slurm.drain([NODE], "contract: one")
        side.human_drains("swapping a DIMM")
        assert side.node.drained_flag
        assert side.node.reason == "swapping a DIMM"

    def test_a_person_undoes_our_drain_whole(self, side: Side) -> None:
        side.slurm.drain([NODE], "contract: one")
        side.human_undrains()
        assert (side.node.drained_flag, side.node.reason) == (False, "")

    def test_a_drain_leaves_the_other_states_alone(self, side: Side) -> None:
        before = side.node.states
        side.slurm.drain([NODE], "contract: one")
        assert side.node.states == before | {NodeState.DRAIN}

    def test_named_nodes_are_returned_once_and_an_unknown_one_is_rejected(self, side: Side) -> None:
        names = [SlurmName(f"worker-{index}") for index in range(3)]
        assert [node.name for node in side.slurm.nodes(names)] == names
        with pytest.raises(Refused, match="worker-77"):
            side.slurm.nodes([NODE, SlurmName("worker-77")])


class AsTheCommands:
    """What an adapter reports, beside what Slurm's commands print."""

    reason: str

    def test_both_adapters_report_the_same(self, side: RealPyslurm | RealRest) -> None:
        """Idle, drained by a person, with a comment, and busy."""
        commands = SlurmCli(30, str(side.tools))
        side.human_drains(self.reason)
        commented = SlurmName("worker-2")
        side.slurm.comment([commented], "a comment, with = and ]")
        busy = SlurmName("worker-3")
        with side.job_on(busy):
            assert side.slurm.nodes() == commands.nodes()
            assert [side.node] == commands.nodes([NODE])
            assert side.slurm.nodes([busy]) == commands.nodes([busy])
            assert side.slurm.nodes([busy])[0].busy
            assert side.slurm.nodes([commented])[0].comment == "a comment, with = and ]"
        side.slurm.comment([commented], "")
        assert side.slurm.nodes([commented])[0].comment == ""
        assert abs(side.slurm.clock() - commands.clock()) < timedelta(seconds=5)


class TestFakes(Contract):
    @pytest.fixture(params=[BridgesFake, AgentsFake])
    def side(self, request: pytest.FixtureRequest) -> Side:
        made: Side = request.param()
        return made


@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0, reason="a sandbox box needs root")
class TestReal(Contract):
    @pytest.fixture
    def side(self, clean_box: Box, tmp_path: Path) -> Iterator[Side]:
        made = Real(clean_box, tmp_path)
        yield made
        made.human_undrains()

    def test_the_cheap_row_of_a_node_is_that_of_the_whole_one(self, side: Side) -> None:
        assert isinstance(side, Real)
        side.slurm.drain([NODE], "holdfast:XID79: GPU 3 | fell off")
        side.slurm.comment([NODE], "a comment")
        row, whole = side.slurm.node_state(NODE), side.node
        assert row is not None
        names = (
            "name",
            "states",
            "unknown_states",
            "reason",
            "reason_user",
            "reason_at",
            "comment",
        )
        assert [getattr(row, name) for name in names] == [getattr(whole, name) for name in names]
        assert side.slurm.node_state(SlurmName("worker-77")) is None


@pytest.mark.e2e
@pytest.mark.pyslurm
@pytest.mark.skipif(os.geteuid() != 0, reason="a sandbox box needs root")
class TestPyslurm(Contract, AsTheCommands):
    reason = "None"

    @pytest.fixture
    def side(self, clean_box: Box, tmp_path: Path) -> Iterator[RealPyslurm]:
        made = RealPyslurm(clean_box, tmp_path)
        yield made
        made.human_undrains()
        made.slurm.close()

    def test_it_is_fit_for_the_cluster_and_a_hung_slurmctld_is_bounded(
        self, side: RealPyslurm, clean_box: Box
    ) -> None:
        side.slurm.check()
        hasty = RealPyslurm(clean_box, side.tools, timeout_s=2).slurm
        hasty.nodes()
        clean_box.signal_daemon("slurmctld", signal.SIGSTOP)
        try:
            begin = time.monotonic()
            with pytest.raises(Unavailable, match="no answer in 2 s"):
                hasty.nodes()
            assert time.monotonic() - begin < 30
        finally:
            clean_box.signal_daemon("slurmctld", signal.SIGCONT)
        assert len(hasty.nodes()) == len(clean_box.nodes)
        hasty.close()


@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0, reason="a sandbox box needs root")
class TestRest(Contract, AsTheCommands):
    reason = "a reason, with = and ]"

    @pytest.fixture
    def side(self, clean_box: Box, tmp_path: Path) -> Iterator[RealRest]:
        made = RealRest(clean_box, tmp_path)
        yield made
        made.human_undrains()

    def test_several_nodes_are_one_write_by_the_tokens_user(self, side: RealRest) -> None:
        names = [SlurmName(f"worker-{index}") for index in range(3)]
        side.slurm.drain(names, "contract: three")
        found = side.slurm.nodes(names)
        assert [(node.reason, node.reason_user) for node in found] == [
            ("contract: three", "holdfast")
        ] * 3
        side.slurm.undrain(names)
        assert not any(node.drained_flag for node in side.slurm.nodes(names))

    def test_the_token_is_read_again_and_in_no_message(
        self, side: RealRest, clean_box: Box
    ) -> None:
        good = side.token_file.read_text()
        bad = good.strip()[:-6] + "AAAAAA"
        side.token_file.write_text(bad)
        with pytest.raises(Unavailable) as error:
            side.slurm.nodes()
        assert bad.partition("=")[2] not in str(error.value)
        side.token_file.write_text(good)
        assert side.slurm.nodes()
        plain = clean_box.run(["scontrol", "token", "username=alice", "lifespan=60"]).stdout
        side.token_file.write_text(plain)
        with pytest.raises(Refused):
            side.slurm.drain([NODE], "not an administrator")
        side.token_file.write_text(good)
        assert not side.node.drained_flag

    def test_a_hung_slurmctld_is_bounded(self, side: RealRest, clean_box: Box) -> None:
        hasty = side.with_limit(2)
        hasty.nodes()
        clean_box.signal_daemon("slurmctld", signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable, match="no answer in 2 s"):
                hasty.nodes()
        finally:
            clean_box.signal_daemon("slurmctld", signal.SIGCONT)

        def answers() -> bool:
            """Requests from before may still keep slurmrestd busy."""
            try:
                return len(side.slurm.nodes()) == len(clean_box.nodes)
            except Unavailable:
                return False

        cluster.wait_for(answers, "an answer of slurmctld", 120)
