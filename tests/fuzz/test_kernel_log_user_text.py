"""Kernel records that carry a user's names: none of them becomes an event but the honest one, and
none hides one."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from slurm_hooks.facts import KernelEvent, XidEvent
from slurm_hooks.probes.kmsg.events import EventReader
from slurm_hooks.probes.kmsg.follower import KernelRecord, xid_of
from tests.fuzz.kernel_log_user_text import FORMS, Form, names
from tests.unit.slurm_hooks.kernel_lines import Block, blocks

NAMES = list(dict.fromkeys(names()))
BLOCKS = list(blocks())


def record(text: str, level: int = 4, at_s: float = 100.0) -> KernelRecord:
    return KernelRecord(facility=0, level=level, seq=1, at_s=at_s, text=text)


def heard(reader: EventReader, records: Iterable[KernelRecord]) -> list[XidEvent | KernelEvent]:
    found: list[XidEvent | KernelEvent] = []
    for one in records:
        xid = xid_of(one)
        found += [xid] if xid is not None else reader.read([one])
    return found


@pytest.mark.parametrize(
    "form", FORMS, ids=[f"{at}-{form.source}" for at, form in enumerate(FORMS)]
)
def test_no_name_makes_an_event_of_another_fault(form: Form) -> None:
    for name in NAMES:
        text = form.with_name(name)
        found = heard(EventReader(), [record(text, form.level)])
        assert {event.code for event in found} <= form.codes, text
        for event in found:  # and what is told of it can be shown on a terminal
            assert (event.text + event.subject).isascii(), event
            assert (event.text + event.subject).isprintable(), event


def test_the_rules_alone_refuse_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the level nor the list of the forms in which a name stands first is needed: whoever
    prints a name in a form that nobody knows finds no rule that fits. Only a netfilter rule's
    prefix is long enough for a driver's line, and a file's name that stands alone would be if it
    did not begin with `` in ``."""
    for module in ("follower", "events"):
        monkeypatch.setattr(
            f"slurm_hooks.probes.kmsg.{module}.begins_with_user_text", lambda _: False
        )
    for form in FORMS:
        for name in NAMES if "{prefix}" not in form.text else ():
            text = form.with_name(name)
            found = heard(EventReader(), [record(text, 0)])
            assert {event.code for event in found} <= form.codes, text


@pytest.mark.parametrize("form", [f for f in FORMS if f.codes], ids=lambda form: form.source)
def test_no_name_hides_its_own_event(form: Form) -> None:
    for name in NAMES:
        text = form.with_name(name)
        assert heard(EventReader(), [record(text, form.level)]), text


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", BLOCKS, ids=[block.source for block in BLOCKS])
def test_lines_between_those_of_a_real_report_change_nothing(block: Block, seed: int) -> None:
    """Reports of several records: the user's own lines come in between at any place."""
    chance = random.Random(f"{seed} {block.source}")
    silent = [form for form in FORMS if not form.codes]
    mixed: list[KernelRecord] = []
    for real in block.records:
        for _ in range(chance.randint(0, 4)):
            form = chance.choice(silent)
            text = form.with_name(chance.choice(NAMES))
            if not text.startswith("CPU: "):  # begins the kernel's report of another stack
                mixed.append(record(text, form.level, real.at_s))
        mixed.append(real)
    alone, among = heard(EventReader(), block.records), heard(EventReader(), mixed)
    assert [(e.code, e.subject, e.text) for e in among] == [
        (e.code, e.subject, e.text) for e in alone
    ]
