"""The fakes of Slurm in the unit tests handle drains as slurmctld does.

Each test runs on the bridge's fake, on the agent's, and through the real adapter on a real slurmctld
(in a sandbox box, which needs root). A fake that fails here makes its unit tests worth nothing.
"""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from testbed import enter
from testbed.box import Box

from holdfast.errors import Refused
from holdfast.slurm.cli import ENV, SlurmCli
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
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

    def __init__(self, box: Box, tools: Path):
        self._box = box
        env = {name: value for name, value in ENV.items() if value is not None}
        for tool in ("scontrol", "sinfo", "sdiag"):
            argv = enter.argv_in(box.pid, [f"/usr/bin/{tool}"], user="root", cwd="/", env=env)
            (tools / tool).write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
            (tools / tool).chmod(0o755)
        self.slurm = SlurmCli(timeout_s=30, bin_dir=str(tools))

    def human_drains(self, reason: str) -> None:
        self._update("state=drain", f"reason={reason}")

    def human_undrains(self) -> None:
        self._update("state=undrain")

    def _update(self, *words: str) -> None:
        self._box.run(["scontrol", "update", f"nodename={NODE}", *words])


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
