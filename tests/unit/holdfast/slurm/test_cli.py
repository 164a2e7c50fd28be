"""The adapter against programs that behave like the recorded scontrol: arguments, errors, bounds."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest

from holdfast.errors import NotInstalled, Refused, Unavailable
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import SlurmName

DATA = Path(__file__).parents[3] / "data" / "slurm" / "24.11"
QUOTED = shlex.quote(str(DATA))  # the checkout may lie in a folder whose name has a blank
N1, N2 = SlurmName("n1"), SlurmName("n2")


class Tools:
    """A folder with shell scripts that replace Slurm's commands; ``calls`` has their arguments."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._log = folder / "calls"

    def install(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >>{self._log}\necho >>{self._log}\n{body}\n')
        path.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line.split("|")[:-1] for line in lines]

    @property
    def slurm(self) -> SlurmCli:
        return SlurmCli(5.0, str(self.folder))


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def test_the_token_is_read_for_each_command_and_leaves_none_behind(
    tools: Tools, tmp_path: Path
) -> None:
    tools.install("scontrol", f'printf "%s\\n" "$SLURM_JWT" >>{tmp_path}/seen')
    token = tmp_path / "token"
    slurm = SlurmCli(5.0, str(tools.folder), str(token))
    with pytest.raises(Unavailable, match=r"no Slurm token: .*/token: "):
        slurm.undrain([N1])
    for text in ("SLURM_JWT=one\n", "two"):
        token.write_text(text)
        slurm.undrain([N1])
    tools.slurm.undrain([N1])
    assert (tmp_path / "seen").read_text() == "one\ntwo\n\n"


def test_writes_are_one_call_for_many_nodes(tools: Tools) -> None:
    tools.install("scontrol", "")
    names = [SlurmName(f"worker-{i}") for i in range(100)]
    tools.slurm.drain(names, "holdfast:XID79: it's 'quoted' $HOME")
    tools.slurm.undrain([N1, N2])
    tools.slurm.comment([N1], "two\nlines")
    assert tools.calls == [
        [
            "update",
            "NodeName=worker-[0-99]",
            "State=DRAIN",
            "Reason=holdfast:XID79: it's 'quoted' $HOME",
        ],
        ["update", "NodeName=n[1-2]", "State=UNDRAIN"],
        ["update", "NodeName=n1", "Comment=two lines"],
    ]


@pytest.mark.parametrize("name", ["ALL", "n[1-9]", "", "a b", "-x", "n1,n2", "n1\n"])
def test_a_name_that_scontrol_would_read_as_more_is_refused_unasked(
    tools: Tools, name: str
) -> None:
    tools.install("scontrol", "")
    with pytest.raises(Refused, match="not a node name"):
        tools.slurm.drain([SlurmName(name)], "x")
    with pytest.raises(Refused, match="none given"):
        tools.slurm.undrain([])
    assert tools.calls == []


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("slurm_update error: Unable to contact slurm controller (connect failure)", Unavailable),
        ("slurm_load_node error: Socket timed out on send/recv operation", Unavailable),
        ("Unexpected message received for job 1", Unavailable),
        ("slurm_load_jobs error: Connection refused", Unavailable),
        ("slurm_update error: Protocol authentication error", Unavailable),
        # slurmctld is killed while it handles the request (seen on 24.11.5)
        (
            "sdiag: error: slurm_send_node_msg: [socket:[19344118]] slurm_bufs_sendto(msg_type="
            "REQUEST_STATS_INFO) failed: Connection reset by peer",
            Unavailable,
        ),
        ("slurm_update error: Broken pipe", Unavailable),
        ("slurm_load_jobs error: Message receive failure", Unavailable),
        ("slurm_load_jobs error: Communication connection failure", Unavailable),
        ("slurm_update error: Invalid user id", Refused),
        ("slurm_update error: Invalid node name specified", Refused),
        ("Requested operation is presently disabled for job 7", Refused),
        ("some words of a release to come", Refused),
    ],
)
def test_no_answer_and_a_rejection_are_distinguished(
    tools: Tools, output: str, kind: type[Exception]
) -> None:
    tools.install("scontrol", f"echo '{output}' >&2; exit 1")
    with pytest.raises(kind) as caught:
        tools.slurm.drain([N1], "x")
    assert "\n" not in str(caught.value)


def test_a_missing_tool_is_named_with_the_remedy(tools: Tools) -> None:
    with pytest.raises(Unavailable, match=r"slurm\.bin"):
        tools.slurm.nodes()


def test_a_hung_controller_blocks_no_call_beyond_its_timeout(tools: Tools) -> None:
    tools.install("scontrol", "sleep 120")
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="no answer"):
        SlurmCli(0.3, str(tools.folder)).nodes()
    assert time.monotonic() - begun < 60


def test_an_empty_list_while_the_controller_is_down_is_not_an_unknown_job(tools: Tools) -> None:
    tools.install(
        "scontrol",
        f'case "$*" in *--json) cat {QUOTED}/job-unknown.json ;; '
        "*) echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1 ;; esac",
    )
    with pytest.raises(Unavailable):
        tools.slurm.job(7)


def test_a_job_is_unknown_only_if_slurm_reports_it(tools: Tools) -> None:
    tools.install(
        "scontrol",
        f'case "$*" in *--json) cat {QUOTED}/job-unknown.json ;; '
        "*) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;; esac",
    )
    assert tools.slurm.job(7) is None


def test_an_unknown_node_is_refused_with_its_name_alone(tools: Tools) -> None:
    tools.install("scontrol", "echo NodeName=n1 lots of words; echo 'Node zz not found'; exit 1")
    with pytest.raises(Refused, match=r"Slurm knows no node zz$"):
        tools.slurm.nodes([N1, SlurmName("zz")])


def test_all_nodes_come_from_text_and_only_ambiguous_ones_from_json(tools: Tools) -> None:
    tools.install(
        "scontrol",
        f'case "$*" in *--json) cat {QUOTED}/nodes.json ;; *) cat {QUOTED}/nodes.txt ;; esac',
    )
    nodes = tools.slurm.nodes()
    assert [node.name for node in nodes] == ["n1", "n2", "n3", "n4"]
    assert nodes[2].reason.startswith("line one\n")
    assert tools.calls == [
        ["show", "nodes", "--oneliner"],
        ["show", "nodes", "n[3-4]", "--json"],
    ]


def test_the_fast_read_falls_back_when_a_text_holds_its_separators(tools: Tools) -> None:
    tools.install("sinfo", r"printf 'idle\037a\037b\037c\037d\037e\037n1\036\n'")
    tools.install(
        "scontrol",
        f'case "$*" in *--json) cat {QUOTED}/nodes.json ;; *) cat {QUOTED}/nodes.txt ;; esac',
    )
    assert len(tools.slurm.nodes_fast()) == 4
    tools.install("sinfo", f"cat {QUOTED}/sinfo.txt")
    assert {node.name for node in tools.slurm.nodes_fast()} == {"n1", "n2", "n3", "n4"}


def shows(job_id: int, **facts: object) -> str:
    """A shell line that answers ``show job`` as the recorded scontrol did, and does not end."""
    answer = json.loads((DATA / "job.json").read_text())
    answer["jobs"][0] |= {"job_id": job_id, **facts}
    return f"case \"$1\" in show) cat <<'END'\n{json.dumps(answer)}\nEND\nexit 0;; esac\n"


LOOK = ["show", "job", "7", "--json"]


def test_hold_of_a_pending_job_is_a_users_hold(tools: Tools) -> None:
    tools.install(
        "scontrol",
        shows(7)
        + 'if [ "$1" = requeuehold ]; then echo "Job is pending execution for job 7" >&2; exit 1; fi',
    )
    tools.slurm.hold(7, "the same failure 3 times")
    assert tools.calls == [
        LOOK,
        ["requeuehold", "7"],
        ["uhold", "7"],
        ["update", "JobId=7", "Comment=the same failure 3 times"],
    ]


def test_start_now_excludes_in_the_same_call(tools: Tools) -> None:
    tools.install("scontrol", shows(7))
    tools.slurm.start_now(7)
    tools.slurm.start_now(7, [N1, N2])
    tools.slurm.start_now(7, [])
    assert [call for call in tools.calls if call != LOOK] == [
        ["update", "JobId=7", "StartTime=now"],
        ["update", "JobId=7", "StartTime=now", "ExcNodeList=n[1-2]"],
        ["update", "JobId=7", "StartTime=now", "ExcNodeList="],
    ]


def test_of_an_array_only_the_element_is_touched_whose_number_the_array_has(tools: Tools) -> None:
    element = {
        "array_job_id": {"set": True, "infinite": False, "number": 7},
        "array_task_id": {"set": True, "infinite": False, "number": 3},
    }
    tools.install("scontrol", shows(7, **element))
    tools.slurm.requeue(7)
    tools.slurm.start_now(7)
    assert [call for call in tools.calls if call != LOOK] == [
        ["requeue", "7_3"],
        ["update", "JobId=7_3", "StartTime=now"],
    ]


def test_a_job_that_slurm_does_not_know_is_not_requeued(tools: Tools) -> None:
    tools.install(
        "scontrol", f"cat {QUOTED}/job-unknown.json; echo 'Invalid job id specified' >&2; exit 1"
    )
    with pytest.raises((Refused, Unavailable)):
        tools.slurm.requeue(7)
    assert not any(call[0] == "requeue" for call in tools.calls)


def test_what_a_person_set_for_their_eyes_does_not_reach_slurm(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINFO_PARTITION", "mine")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_CONF", "/etc/other/slurm.conf")
    body = (
        f'echo "${{SINFO_PARTITION-gone}} $SLURM_TIME_FORMAT $TZ $SLURM_CONF" >{tools.folder}/env'
    )
    tools.install("sdiag", f"{body}; cat {QUOTED}/sdiag.txt")
    tools.slurm.clock()
    seen = (tools.folder / "env").read_text()
    assert seen == "gone %s UTC /etc/other/slurm.conf\n"


def test_unexpected_output_counts_as_no_answer(tools: Tools) -> None:
    tools.install("sdiag", "echo surprise")
    with pytest.raises(Unavailable, match="unexpected output"):
        tools.slurm.clock()


def test_where_slurm_is_not_installed_no_answer_comes_later(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="is Slurm installed here"):
        SlurmCli(1.0, str(tmp_path)).job(7)
