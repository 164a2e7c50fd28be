"""Recordings of real Slurm releases, and texts that must not mislead a parser."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.slurm.parse import scontrol_json, scontrol_text, sdiag, sinfo, squeue, values
from holdfast.vocabulary import NodeState

DATA = Path(__file__).parents[4] / "data" / "slurm"
RELEASES = sorted(path.name for path in DATA.iterdir())
OURS = "holdfast:XID79: GPU 3 fell off the bus boot=abcdef01 gpu=3"


def recorded(release: str, name: str) -> str:
    # No newline translation: sinfo's records end in a control character and a line feed.
    return (DATA / release / name).read_bytes().decode()


def test_both_supported_releases_are_recorded() -> None:
    assert RELEASES == ["24.11", "26.05"]


@pytest.mark.parametrize("slurm", RELEASES)
def test_nodes_as_json(slurm: str) -> None:
    n1, n2, n3, n4 = scontrol_json.nodes_json(recorded(slurm, "nodes.json"))
    assert n1.states == {NodeState.MIXED}
    assert n1.busy
    assert n2.states == {NodeState.IDLE, NodeState.DRAIN}
    assert (n2.reason, n2.reason_user) == (OURS, "root")
    assert n2.reason_at is not None
    assert n2.reason_at.year == 2026
    assert n2.instance_id == "computeinstance-1"
    assert n2.comment == "a comment State=IDLE | pipe"
    assert n3.reason == "line one\nNodeName=n1 State=DOWN Reason=x"
    assert n4.states == {NodeState.DOWN}
    assert not n1.unknown_states


@pytest.mark.parametrize("slurm", RELEASES)
def test_text_agrees_with_json_and_what_could_be_read_in_two_ways_is_doubtful(
    slurm: str,
) -> None:
    exact = {
        str(node.name): node for node in scontrol_json.nodes_json(recorded(slurm, "nodes.json"))
    }
    text = scontrol_text.nodes_text(recorded(slurm, "nodes.txt"))
    assert [node.address for node in text.nodes][:2] == ["10.77.0.1", "10.77.0.2"]
    # n3's reason spans lines; n4's holds what looks like slurmctld's signature.
    assert text.ambiguous == ["n3", "n4"]
    assert text.nodes == [exact["n1"], exact["n2"]]
    assert [node.partitions for node in text.nodes] == [("main",), ("main",)], "not compared"


@pytest.mark.parametrize("slurm", RELEASES)
def test_grouped_output_agrees_with_json(slurm: str) -> None:
    exact = {
        str(node.name): node for node in scontrol_json.nodes_json(recorded(slurm, "nodes.json"))
    }
    found = {node.name: node for node in sinfo.GroupedNodes().read(recorded(slurm, "sinfo.txt"))}
    assert found.keys() == exact.keys()
    for name, node in found.items():
        other = exact[name]
        assert (node.states, node.reason, node.reason_user, node.reason_at, node.comment) == (
            other.states,
            other.reason,
            other.reason_user,
            other.reason_at,
            other.comment,
        )


@pytest.mark.parametrize("slurm", RELEASES)
def test_a_job_whose_name_looks_like_a_field(slurm: str) -> None:
    number = json.loads(recorded(slurm, "job.json"))["jobs"][0]["job_id"]
    job = scontrol_json.job_json(recorded(slurm, "job.json"), number)
    assert job is not None
    assert (job.name, job.user, job.state) == ("x JobState=y", "alice", "RUNNING")
    assert (job.nodes, job.batch_host, job.exit_code) == ("n1", "n1", "0:0")
    assert (job.requeue, job.restarts) == (True, 0)
    assert scontrol_json.job_json(recorded(slurm, "job.json"), number + 1) is None
    assert scontrol_json.job_json(recorded(slurm, "job-unknown.json"), number) is None


def test_the_start_of_slurmctld() -> None:
    """As both releases print it; BootTime is a node's."""
    text = "Configuration data as of 1795299125\nBatchStartTimeout = 10 sec\nBOOT_TIME               = 1795298981\n"
    assert scontrol_text.slurmctld_at(text).timestamp() == 1795298981
    with pytest.raises(values.ParseError):
        scontrol_text.slurmctld_at(text.replace("1795298981", "2026-11-21T22:09:41"))


def test_the_folder_of_slurmds_sockets() -> None:
    """As both releases print it, with the patterns of slurm.conf."""
    text = "SlurmdPort = 6818\nSlurmdSpoolDir          = /var/spool/slurmd/%n\nSlurmdSyslogDebug = (null)\n"
    assert scontrol_text.spool_folder(text) == "/var/spool/slurmd/%n"
    with pytest.raises(values.ParseError):
        scontrol_text.spool_folder(text.replace("/var/spool/slurmd/%n", "(null)"))


@pytest.mark.parametrize("slurm", RELEASES)
def test_the_clock(slurm: str) -> None:
    at = sdiag.clock(recorded(slurm, "sdiag.txt"))
    assert at.tzinfo is timezone.utc
    assert at.year == 2026


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1795229437, 1795229437),
        ("1795229437", 1795229437),
        ({"set": True, "infinite": False, "number": 1795229437}, 1795229437),
        ({"number": 1795229437}, 1795229437),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 7}, None),
        (0, None),
        ("None", None),
        ("Unknown", None),
        (None, None),
        ([], None),
        (1 << 60, None),
    ],
)
def test_numbers_in_every_shape(value: object, seconds: int | None) -> None:
    expected = None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    assert values.epoch(value) == expected


@pytest.mark.parametrize(
    ("words", "states", "unknown"),
    [
        (["IDLE", "DRAIN"], {NodeState.IDLE, NodeState.DRAIN}, ()),
        (["down*", "drain"], {NodeState.DOWN, NodeState.DRAIN, NodeState.NOT_RESPONDING}, ()),
        (["IDLE~"], {NodeState.IDLE, NodeState.POWERED_DOWN}, ()),
        (["inval"], {NodeState.INVALID_REG}, ()),
        (["IDLE", "SHINY_NEW_FLAG"], {NodeState.IDLE}, ("SHINY_NEW_FLAG",)),
    ],
)
def test_states(words: list[str], states: set[NodeState], unknown: tuple[str, ...]) -> None:
    assert values.states(words) == (frozenset(states), unknown)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nodes": 1}', '{"nodes": [1]}', "slurm_load"])
def test_invalid_json_of_nodes_is_an_error(text: str) -> None:
    with pytest.raises(values.ParseError):
        scontrol_json.nodes_json(text)


def line(name: str, tail: str = "") -> str:
    return (
        f"NodeName={name} CoresPerSocket=1  CPUAlloc=0 State=IDLE ThreadsPerCore=1 "
        f"BootTime=1795224746 SlurmdStartTime=1795229411 CurrentWatts=0 AveWatts=0 {tail}\n"
    )


@pytest.mark.parametrize(
    "tail",
    [
        "Reason=x [root@1] Comment=y [root@1795229437]",
        "Reason=x [root@1795229437] Comment=a Comment=b",
        "Reason=x [root@1795229437] InstanceId=i-1 Comment=y",
        "Surprise=1",
    ],
)
def test_free_text_that_could_be_read_in_two_ways_is_never_guessed(tail: str) -> None:
    assert scontrol_text.nodes_text(line("n1") + line("n2", tail)).ambiguous == ["n2"]


def test_a_reason_ends_only_at_its_user_and_time() -> None:
    (node,) = scontrol_text.nodes_text(line("n1", "Reason=x Comment=y [root@1795229437]")).nodes
    assert (node.reason, node.comment) == ("x Comment=y", "")
    (node,) = scontrol_text.nodes_text(line("n1", "Comment=x Reason=y [root@1795229437]")).nodes
    assert (node.reason, node.comment) == ("", "x Reason=y [root@1795229437]")


def test_a_repeated_record_is_ambiguous() -> None:
    found = scontrol_text.nodes_text(line("n1") + line("n2") + line("n1", "Comment=spoofed"))
    assert [node.name for node in found.nodes] == ["n2"]
    assert found.ambiguous == ["n1"]


def test_output_without_a_node_record_is_an_error() -> None:
    with pytest.raises(values.ParseError):
        scontrol_text.nodes_text("slurm_load_node error: whatever\n")
    assert scontrol_text.nodes_text("") == ([], [])


@pytest.mark.parametrize(
    "record",
    ["idle\x1fnone\x1e\n", "idle\x1fa\x1fb\x1fc\x1fd\x1fn1\x1fn2\x1e\n", "garbage"],
)
def test_a_grouped_record_with_other_fields_is_an_error(record: str) -> None:
    with pytest.raises(ValueError, match="sinfo"):
        sinfo.GroupedNodes().read(record)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_parsers_raise_nothing_but_parse_errors(text: str) -> None:
    for reader in (
        scontrol_json.nodes_json,
        scontrol_text.nodes_text,
        sinfo.GroupedNodes().read,
        sdiag.clock,
        scontrol_text.slurmctld_at,
    ):
        try:
            reader(text)
        except ValueError:
            pass


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "state", "number", "set", "id"]), inner),
    ),
    max_leaves=8,
)
FIELDS = ["name", "state", "reason", "reason_changed_at", "boot_time", "job_id", "exit_code"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=3))
def test_rows_of_any_shape_are_read_defensively(rows: list[object]) -> None:
    scontrol_json.nodes_json(json.dumps({"nodes": rows}))
    scontrol_json.job_json(json.dumps({"jobs": rows}), 1)


@pytest.mark.parametrize(
    ("row", "array_task"),
    [
        ({}, ""),
        ({"array_job_id": 0, "array_task_id": {"set": False, "number": 0}, "het_job_id": 0}, ""),
        ({"array_job_id": {"set": True, "number": 7}, "array_task_id": {"set": True, "number": 0}}, "7_0"),
        ({"array_job_id": 7, "array_task_id": 12}, "7_12"),
        ({"het_job_id": {"set": True, "number": 8}, "het_job_offset": {"set": True, "number": 0}}, "8+0"),
        ({"het_job_id": 8, "het_job_offset": 1}, "8+1"),
    ],
)  # fmt: skip
def test_a_number_of_several_jobs_has_an_unambiguous_name(
    row: dict[str, object], array_task: str
) -> None:
    """Seen on 24.11.5: ``scontrol update JobId=7`` changes every task of the array 7."""
    found = scontrol_json.job_json(json.dumps({"jobs": [{"job_id": 7, **row}]}), 7)
    assert found is not None
    assert found.array_task == array_task


def test_running_jobs() -> None:
    first, second = squeue.running_jobs("12 worker-0 1763800000\n13 worker-1 1763800001\n")
    assert (first.job_id, first.batch_host) == (12, "worker-0")
    assert (second.start_at - first.start_at).total_seconds() == 1
    assert squeue.running_jobs("") == []


@pytest.mark.parametrize(
    "text",
    ["12 worker-0 N/A\n", "12 worker-0\n", "JOBID HOST START\n", "12_[1-4] worker-0 1763800000\n"],
)
def test_a_line_that_is_no_running_job_is_an_error(text: str) -> None:
    with pytest.raises(values.ParseError):
        squeue.running_jobs(text)
