"""The adapter over pyslurm, with a package of that name in the worker process that a test writes."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from holdfast.cli import site_config
from holdfast.config.schema import SlurmAdapter, SlurmConfig
from holdfast.errors import ConfigError, Refused, Unavailable
from holdfast.slurm.adapter import open_slurm
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.parse import scontrol_json
from holdfast.slurm.pyslurm import client as pyslurm_client
from holdfast.slurm.pyslurm import worker_process
from holdfast.slurm.pyslurm.client import SlurmPyslurm, node_of
from holdfast.slurm.pyslurm.worker import row_of
from holdfast.vocabulary import NodeState, SlurmName

TOP = Path(__file__).parents[4]
N1, N2 = SlurmName("n1"), SlurmName("n2")
STARTED = 1790000000

FAKE = """
import json, os, sys, time
from types import SimpleNamespace
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
__version__ = "25.11.2"

class RPCError(Exception):
    pass

def told():
    with open(HERE + "/told.json") as file:
        return json.load(file)

def log(*words):
    with open(HERE + "/calls", "a") as file:
        file.write(json.dumps(words) + "\\n")

def slurm_api_version():
    return (25, 11, 7)

def slurm_init():
    log("init", os.environ.get("SLURM_JWT", ""))
    rpc("init")

def rpc(name):
    now = told()
    if now.get("hang") == name:
        time.sleep(60)
    if now.get("fatal") == name:
        print("fatal: cannot read slurm.conf", file=sys.stderr)
        os._exit(1)
    print("noise on standard output", flush=True)
    if now.get("error"):
        raise RPCError(now["error"])

class Node:
    def __init__(self, name=None, **changes):
        self.name, self._changes = name, changes
    @staticmethod
    def load(name):
        rpc("node")
        for row in told()["nodes"]:
            if row["name"] == name:
                return SimpleNamespace(**row)
        raise RPCError(f"Node '{name}' does not exist")
    def modify(self, changes):
        log("modify", self.name, changes._changes)
        rpc("modify")

class Nodes:
    @staticmethod
    def load():
        rpc("nodes")
        return {row["name"]: SimpleNamespace(**row) for row in told()["nodes"]}

class slurmctld:
    class Config:
        @staticmethod
        def load():
            rpc("release")
            return SimpleNamespace(version=told().get("release", "25.11.7"))
    @staticmethod
    def diag():
        return SimpleNamespace(request_time=1790000500)
"""


def node(name: str = "n1", **more: Any) -> dict[str, Any]:
    """What pyslurm reports of an idle node."""
    return {
        "name": name,
        "state": "IDLE",
        "reason": None,
        "reason_user": None,
        "reason_time": None,
        "comment": None,
        "boot_time": STARTED - 100,
        "slurmd_start_time": STARTED,
        "partitions": ["main"],
        "effective_cpus": 16,
        "configured_gres": {"gpu:h100": 8},
        **more,
    }


class Cluster:
    """A folder with that package, and with a scontrol that knows the InstanceIds."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "pyslurm").mkdir()
        self.package = folder / "pyslurm/__init__.py"
        self.package.write_text(FAKE)
        self.nodes = [node("n1"), node("n2")]
        self.ids = {"n1": "instance-1", "n2": "instance-2"}
        self.version = "slurm 25.11.7"
        self.tell()
        start = (
            f"import sys; sys.path[:0] = [{str(folder)!r}, {str(TOP)!r}]\n"
            "from holdfast.slurm.pyslurm.worker import main\nsys.exit(main())"
        )
        self.slurm = SlurmPyslurm(
            5.0, str(folder), str(folder / "token"), worker=[sys.executable, "-I", "-c", start]
        )
        (folder / "token").write_text("SLURM_JWT=one\n")

    def tell(self, **more: Any) -> None:
        """From now on Slurm is like this."""
        text = json.dumps({"nodes": self.nodes, **more})
        (self.folder / "told.json").write_text(text)
        lines = [
            f"NodeName={row['name']} Arch=x86_64 CoresPerSocket=8 State=IDLE ThreadsPerCore=1 "
            f"BootTime={row['boot_time']} SlurmdStartTime={row['slurmd_start_time']} LastBusyTime=1 "
            f"AveWatts=0 InstanceId={self.ids[row['name']]}"
            for row in self.nodes
        ]
        tool = self.folder / "scontrol"
        tool.write_text(
            f'#!/bin/sh\necho "$@" >>{self.folder}/scontrol.calls\n'
            f'case "$*" in --version) echo "{self.version}" ;;\n'
            f"*--json) echo '{json.dumps({'nodes': [self._json(row) for row in self.nodes]})}' ;;\n"
            f"*) cat <<'END'\n" + "\n".join(lines) + "\nEND\nesac\n"
        )
        tool.chmod(0o755)

    def _json(self, row: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": row["name"],
            "state": ["IDLE"],
            "instance_id": self.ids[row["name"]],
            "slurmd_start_time": row["slurmd_start_time"],
        }

    @property
    def calls(self) -> list[list[Any]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    @property
    def scontrol(self) -> list[str]:
        """The calls of scontrol for nodes."""
        file = self.folder / "scontrol.calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line != "--version"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.slurm.close()
    for process in worker_process._left:
        process.wait(5)


def test_a_snapshot_has_states_reason_times_and_instance_ids(cluster: Cluster) -> None:
    cluster.nodes[1] |= {
        "state": "IDLE+DRAIN",
        "reason": "holdfast:XID79: GPU 3",
        "reason_user": "root",
        "reason_time": STARTED + 5,
        "comment": "a comment",
    }
    cluster.tell()
    first, second = cluster.slurm.nodes()
    assert first.states == {NodeState.IDLE}
    assert (first.reason, first.reason_user, first.reason_at) == ("", "", None)
    assert (first.instance_id, second.instance_id) == ("instance-1", "instance-2")
    assert second.drained_flag
    assert (second.reason, second.reason_user) == ("holdfast:XID79: GPU 3", "root")
    assert second.reason_at == datetime.fromtimestamp(STARTED + 5, timezone.utc)
    assert second.comment == "a comment"
    (named,) = cluster.slurm.nodes([N1])
    assert named == first
    assert (named.cpus, named.gpus, named.partitions) == (16, 8, ("main",))


def test_instance_ids_are_read_once_and_again_where_slurmd_started_again(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.slurm.nodes()
        cluster.slurm.nodes([N2])
    assert cluster.scontrol == ["show nodes --oneliner"]
    cluster.nodes[1]["slurmd_start_time"] = STARTED + 60
    cluster.ids["n2"] = "instance-9"
    cluster.tell()
    assert [each.instance_id for each in cluster.slurm.nodes()] == ["instance-1", "instance-9"]
    assert cluster.scontrol[1:] == ["show nodes n2 --json"]


def test_an_instance_id_set_by_hand_is_seen_when_the_answer_is_too_old(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.slurm.nodes()
    cluster.ids["n1"] = "by-hand"
    cluster.tell()
    assert cluster.slurm.nodes()[0].instance_id == "instance-1"
    monkeypatch.setattr(pyslurm_client, "INSTANCE_ID_S", 0.0)
    assert cluster.slurm.nodes()[0].instance_id == "by-hand"


def test_the_fast_snapshot_starts_no_process(cluster: Cluster) -> None:
    assert [each.instance_id for each in cluster.slurm.nodes_fast()] == ["", ""]
    assert cluster.scontrol == []


def test_writes_are_one_rpc_for_all_nodes(cluster: Cluster) -> None:
    cluster.slurm.drain([N1, N2], "why\nso")
    cluster.slurm.undrain([N1])
    cluster.slurm.comment([N2], "text")
    assert cluster.calls[1:] == [
        ["modify", "n[1-2]", {"state": "DRAIN", "reason": "why so"}],
        ["modify", "n1", {"state": "UNDRAIN"}],
        ["modify", "n2", {"comment": "text"}],
    ]
    assert cluster.scontrol == []
    cluster.slurm.comment([N2], "")
    assert cluster.scontrol == ["update NodeName=n2 Comment="]


def test_slurmctlds_clock_is_an_rpc_too(cluster: Cluster) -> None:
    assert cluster.slurm.clock() == datetime.fromtimestamp(1790000500, timezone.utc)


@pytest.mark.parametrize("names", [["zz"], ["n1", "zz"]])
def test_an_unknown_node_is_refused_by_name(cluster: Cluster, names: list[str]) -> None:
    with pytest.raises(Refused, match="Slurm knows no node zz"):
        cluster.slurm.nodes([SlurmName(name) for name in names])


@pytest.mark.parametrize("names", [["ALL"], ["n[1-4]"], []])
def test_a_name_that_means_more_than_one_node_is_never_written(
    cluster: Cluster, names: list[str]
) -> None:
    with pytest.raises(Refused, match="not a node name"):
        cluster.slurm.drain([SlurmName(name) for name in names], "why")


def test_slurms_errors_are_told_apart_as_those_of_the_commands(cluster: Cluster) -> None:
    cluster.slurm.nodes_fast()
    cluster.tell(error="Access/permission denied")
    with pytest.raises(Refused, match="Access/permission denied"):
        cluster.slurm.drain([N1], "why")
    cluster.tell(error="Unable to contact slurm controller (connect failure)")
    with pytest.raises(Unavailable, match="Unable to contact slurm controller"):
        cluster.slurm.drain([N1], "why")
    with pytest.raises(Unavailable, match="Unable to contact slurm controller"):
        cluster.slurm.nodes()
    cluster.tell()
    assert len(cluster.slurm.nodes()) == 2


def test_a_call_that_hangs_ends_in_time_and_the_next_one_works(cluster: Cluster) -> None:
    hasty = SlurmPyslurm(5, str(cluster.folder), worker=cluster.slurm._argv)
    hasty.nodes_fast()
    cluster.tell(hang="modify")
    begin = time.monotonic()
    with pytest.raises(Unavailable, match=r"pyslurm update: no answer in 5 s"):
        hasty.drain([N1], "why")
    assert time.monotonic() - begin < 25
    cluster.tell()
    assert len(hasty.nodes_fast()) == 2
    hasty.close()


def test_what_libslurm_wrote_before_it_ended_the_process_is_in_the_message(
    cluster: Cluster,
) -> None:
    cluster.tell(fatal="init")
    with pytest.raises(Unavailable, match=r"ended with status 1: fatal: cannot read slurm\.conf"):
        cluster.slurm.nodes()
    cluster.tell()
    assert len(cluster.slurm.nodes()) == 2


def test_a_worker_that_was_killed_between_two_calls_is_replaced(cluster: Cluster) -> None:
    cluster.slurm.nodes()
    worker = cluster.slurm._worker
    assert worker is not None
    worker._process.kill()
    worker._process.wait()
    assert len(cluster.slurm.nodes()) == 2


def test_a_renewed_token_starts_another_worker(cluster: Cluster) -> None:
    cluster.slurm.nodes()
    cluster.slurm.nodes()
    (cluster.folder / "token").write_text("two")
    cluster.slurm.nodes()
    assert [call for call in cluster.calls if call[0] == "init"] == [
        ["init", "one"],
        ["init", "two"],
    ]
    (cluster.folder / "token").unlink()
    with pytest.raises(Unavailable, match="no Slurm token"):
        cluster.slurm.nodes()


def _missing(cluster: Cluster) -> None:
    cluster.package.unlink()
    cluster.package.parent.rmdir()


def _without_libslurm(cluster: Cluster) -> None:
    cluster.package.write_text(
        "raise ImportError('libslurmfull.so: cannot open shared object file')"
    )


def _crashing(cluster: Cluster) -> None:
    cluster.package.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")


def _other_machine(cluster: Cluster) -> None:
    cluster.version = "slurm 26.05.5"
    cluster.tell(fatal="init")


def _other_cluster(cluster: Cluster) -> None:
    cluster.tell(release="26.05.5")


def _older_cluster(cluster: Cluster) -> None:
    cluster.tell(error="Incompatible versions of client and server code")


@pytest.mark.parametrize(
    ("so_it_is", "line"),
    [
        (_missing, r"pyslurm is not installed for .*No module named 'pyslurm'.*; install"),
        (_without_libslurm, r"pyslurm cannot be loaded \(libslurmfull\.so: cannot open.*; build"),
        (_crashing, r"pyslurm cannot be loaded \(.*\); build"),
        (
            _other_machine,
            r"25\.11\.2 is built for Slurm 25\.11, and this machine has 26\.05; install",
        ),
        (
            _other_cluster,
            r"25\.11\.2 is built for Slurm 25\.11, and the cluster runs 26\.05; install",
        ),
        (_older_cluster, r"built for Slurm 25\.11, and slurmctld refuses that release .*; install"),
    ],
)
def test_a_pyslurm_that_does_not_fit_is_refused_in_one_line_with_the_remedy(
    cluster: Cluster, so_it_is: Callable[[Cluster], None], line: str
) -> None:
    so_it_is(cluster)
    with pytest.raises(ConfigError, match=line) as refusal:
        cluster.slurm.check()
    text = str(refusal.value)
    assert text.startswith("slurm.adapter: pyslurm ")
    assert text.endswith(", or set slurm.adapter: commands")
    assert "\n" not in text
    with pytest.raises(Unavailable, match=line):
        cluster.slurm.nodes()


def test_a_silent_slurmctld_is_no_bad_configuration(cluster: Cluster) -> None:
    cluster.tell(error="Unable to contact slurm controller (connect failure)")
    cluster.slurm.check()


def test_the_configuration_picks_the_adapter(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type(open_slurm(SlurmConfig())) is SlurmCli
    monkeypatch.setattr(pyslurm_client.SlurmPyslurm, "check", lambda _: None)
    chosen = open_slurm(SlurmConfig(adapter=SlurmAdapter.PYSLURM, bin=str(cluster.folder)))
    assert type(chosen) is SlurmPyslurm


def test_a_command_reports_what_keeps_pyslurm_from_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def unfit(_: SlurmPyslurm) -> NoReturn:
        raise ConfigError("slurm.adapter: pyslurm is not installed")

    monkeypatch.setattr(pyslurm_client.SlurmPyslurm, "check", unfit)
    (tmp_path / "holdfast.yaml").write_text("slurm: {adapter: pyslurm}\n")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    found = site_config.load()
    assert type(found.slurm()) is SlurmCli, "commands go on with Slurm's commands"
    assert found.complain("explain") == 2
    assert "slurm.adapter: pyslurm is not installed" in capsys.readouterr().err


class Unreadable(SimpleNamespace):
    """A node whose comment is not UTF-8."""

    @property
    def comment(self) -> str:
        return b"\xff".decode()


def test_what_pyslurm_cannot_read_exactly_is_left_to_scontrol() -> None:
    fields = node("n1")
    del fields["comment"]
    assert row_of(Unreadable(**fields)) == {"name": "n1", "doubtful": True}
    none = node("n1", state="IDLE+DRAIN", reason=None, reason_user="root", reason_time=STARTED)
    assert row_of(SimpleNamespace(**none)) == {"name": "n1", "doubtful": True}


def test_a_doubtful_node_comes_from_scontrol(cluster: Cluster) -> None:
    cluster.nodes[0] |= {"reason_time": STARTED, "state": "IDLE+DRAIN"}
    cluster.tell()
    first, second = cluster.slurm.nodes_fast()
    assert (first.name, first.instance_id) == ("n1", "instance-1")
    assert second.instance_id == ""
    assert cluster.scontrol == ["show nodes n1 --json"]


RECORDED = sorted((TOP / "tests/data/pyslurm").glob("*.json"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_nodes_read_as_scontrols_own_output_of_the_same_moment(file: Path) -> None:
    """Idle, drained by a person, with a comment, and busy with a job on one CPU."""
    recorded = json.loads(file.read_text())
    expected = {
        each.name: dataclasses.replace(each, instance_id="")
        for each in scontrol_json.nodes_json(json.dumps(recorded["nodes"]))
    }
    read = {row["name"]: node_of(row) for row in recorded["pyslurm"]}
    assert read == expected
    for name, each in read.items():
        for field in ("cpus", "gpus", "partitions", "slurmd_started_at"):
            assert getattr(each, field) == getattr(expected[name], field), (name, field)
    states = frozenset[NodeState]().union(*(each.states for each in read.values()))
    assert {NodeState.DRAIN, NodeState.IDLE, NodeState.MIXED} <= states
