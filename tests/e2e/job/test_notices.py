"""The owner of a job gets a mail from the node's agent when the job has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from testbed.box import Box

from tests.e2e import agents, cluster
from tests.e2e.job import training

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

MAILER = "/mnt/training/mailer"


@contextmanager
def mails(box: Box) -> Iterator[None]:
    """Every agent sends mails with a program that keeps them, as ``/mnt/training/mailer.OWNER``."""
    box.run(["tee", MAILER], stdin=f'#!/bin/sh\nexec cat >>{MAILER}."$1"\n')
    box.run(["chmod", "0755", MAILER])
    section = f'notify: {{mail: [{MAILER}, "{{user}}"]}}\n'
    before = agents.configure(box, lambda text: text + section)
    try:
        yield
    finally:
        agents.configure(box, lambda _text: before)


def test_the_owner_of_a_job_that_fails_gets_a_mail(clean_box: Box) -> None:
    box = clean_box
    with mails(box):
        job = training.submit(box, steps=3, code=93)
        job.wait_state("FAILED")
        mail = box.path(f"{MAILER}.alice")
        cluster.wait_for(mail.exists, "a mail", scene=job.log)
        cluster.wait_for(lambda: "holdfast explain" in mail.read_text(), "the whole mail")
    text = mail.read_text()
    assert f"Subject: [holdfast] job {job.job_id} on demo has failed" in text
    assert "To: alice" in text
    assert "exit code 93" in text
