"""Accounting is asked which drain a return ended, until it answers."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig, SlurmConfig
from holdfast.policy.ownership import PastDrain, Undrained
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.record import Records
from slurm_hooks.agent.drain.undrain_audit import GIVE_UP_S, UndrainAudit
from slurm_hooks.settings.settings import Settings

AT = datetime.now(timezone.utc).replace(microsecond=0)
OURS = "holdfast:XID79: gpu 3"
ASKED = Undrained(
    reason=OURS, since=AT - timedelta(seconds=60), looked_at=AT - timedelta(seconds=1), until=AT
)
SACCTMGR = """\
#!/bin/sh
cat "$(dirname "$0")/answer"
exit $(cat "$(dirname "$0")/status")
"""
NO_ACCOUNTING = "You are not running a supported accounting_storage plugin\n"


class Site:
    """A node's folders, and a fake sacctmgr with a given output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tool = folder / "bin/sacctmgr"
        tool.parent.mkdir()
        tool.write_text(SACCTMGR)
        tool.chmod(0o755)
        paths = PathsConfig(run=folder / "run", state=folder / "state")
        slurm = SlurmConfig(bin=str(folder / "bin"))
        self.config = Settings(
            path=folder / "none.yaml", cluster=ClusterConfig(paths=paths, slurm=slurm)
        )
        self.records = Records(paths)
        self.now = time.monotonic()

    def says(self, text: str, status: int = 0) -> None:
        (self.folder / "bin/answer").write_text(text)
        (self.folder / "bin/status").write_text(str(status))

    def audit(self, undrained: Undrained) -> UndrainAudit:
        """Of the next agent, after the one that undrained."""
        self.records.save_return(undrained)
        return UndrainAudit(SlurmName("worker-1"), self.config, self.records.load_return()[0])

    def ask(self, audit: UndrainAudit, times: int = 1) -> PastDrain | None:
        """Let time pass until so many queries are answered."""
        found = None
        for _ in range(times):
            self.now = max(self.now, audit.next_at)
            found = audit.turn(self.now)
            until = time.monotonic() + 20
            while audit.workers and time.monotonic() < until:
                time.sleep(0.01)
                found = audit.turn(min(self.now, audit.next_at - 1)) or found
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def row(start: datetime, end: datetime | None, reason: str) -> str:
    ended = str(int(end.timestamp())) if end else "Unknown"
    return f"{int(start.timestamp())}|{ended}|DRAIN|0|{reason}\n"


def test_the_audit_ends_when_accounting_confirms_the_drain(site: Site) -> None:
    audit = site.audit(ASKED)
    site.says(row(ASKED.since, AT, OURS))
    assert site.ask(audit) is None
    assert audit.next_at == float("inf")
    assert site.records.load_return() == (None, "")


def test_a_persons_drain_is_recorded_until_it_is_set_again(site: Site) -> None:
    audit = site.audit(ASKED)
    site.says(row(ASKED.since, AT, OURS) + row(AT, AT, "ticket 9"))
    found = site.ask(audit)
    assert found is not None
    assert found.reason == "ticket 9"
    assert site.records.load_return()[0] == ASKED, "the step removes it once the drain is set"


def test_accounting_is_asked_until_it_answers(site: Site) -> None:
    audit = site.audit(ASKED)
    site.says("sacctmgr: error: slurm_persist_conn_open_without_init: Connection refused\n", 1)
    site.ask(audit, times=3)
    assert audit.why == ""
    site.ask(audit, times=9)
    assert "accounting does not report" in audit.why
    assert audit.next_at <= site.now + 600
    assert site.records.load_return()[0] == ASKED
    site.says(row(ASKED.since, AT, OURS) + row(AT, AT, "ticket 9"))
    found = site.ask(audit)
    assert found is not None
    assert audit.why == ""


def test_the_agents_own_change_alone_causes_no_warning(site: Site) -> None:
    audit = site.audit(replace(ASKED, changes=1))
    site.says("slurmdbd: Connection refused\n", 1)
    site.ask(audit, times=6)
    assert audit.why == ""
    assert audit.next_at < float("inf"), (
        "the audit still asks, because slurmctld may drain by itself"
    )


def test_without_accounting_the_count_of_changes_decides(site: Site) -> None:
    site.says(NO_ACCOUNTING, 1)
    alone = site.audit(replace(ASKED, changes=1))
    assert site.ask(alone) is None
    assert site.records.load_return() == (None, "")
    met = site.audit(replace(ASKED, changes=2))
    site.ask(met, times=5)
    assert "not running a supported accounting" in met.why


def test_after_a_week_the_audit_is_given_up(site: Site) -> None:
    ago = timedelta(seconds=GIVE_UP_S + 60)
    old = replace(ASKED, since=AT - ago, looked_at=AT - ago, until=AT - ago)
    audit = site.audit(old)
    site.says("slurmdbd: Connection refused\n", 1)
    assert site.ask(audit) is None
    assert audit.next_at == float("inf")
    assert site.records.load_return() == (None, "")


def test_a_later_return_of_its_own_does_not_replace_a_question(site: Site) -> None:
    """While accounting is away, the node may be drained and returned again."""
    site.says("slurmdbd: Connection refused\n", 1)
    audit = site.audit(replace(ASKED, changes=2))
    site.ask(audit)
    audit.watch(replace(ASKED, since=AT, changes=1), site.now)
    assert audit.undrained is not None
    assert audit.undrained.changes == 2
    audit.watch(replace(ASKED, since=AT, changes=3), site.now)
    assert audit.undrained.changes == 3
    audit.close()


def test_a_drain_that_is_still_set_was_not_ended(site: Site) -> None:
    audit = site.audit(ASKED)
    audit.still_drained(AT)
    assert audit.next_at < float("inf"), "another drain does not end the audit"
    audit.still_drained(ASKED.since)
    assert audit.next_at == float("inf")
