"""Notices from a launcher to a real HTTP server and to a real program that takes a mail."""

from __future__ import annotations

import json
import os
import pwd
import select
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from email import message_from_string
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.agent.notices import message
from slurm_hooks.agent.notices.delivery import open_delivery, webhook
from slurm_hooks.agent.notices.message import Request
from slurm_hooks.agent.notices.notifier import _MAX_WAITING, Notifier
from slurm_hooks.job.launcher.notices import Notices
from slurm_hooks.job.notice import Notice
from slurm_hooks.settings.notify import JobEvent, NotifyConfig
from slurm_hooks.settings.settings import Settings
from tests.unit.slurm_hooks.fake_agent_socket import listening

ME = os.geteuid()
USER = pwd.getpwuid(ME).pw_name
NOTICE = Notice(
    event=JobEvent.HELD, job=7, attempt=3, why="a <b> & c", lost_s=900.0, gpus=16, owner=ME
)
SECRET = "T0KEN"  # noqa: S105 - of the test itself


class Receiver(HTTPServer):
    """Records each request and answers with the next of ``answers`` (200 when there is none)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, dict[str, str], dict[str, object]]] = []
        self.answers: list[int] = []
        self.hangs = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{SECRET}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), json.loads(body)))
        if self.server.hangs.is_set():
            time.sleep(1.0)
        code = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(code)
        if code in (301, 302, 307, 308):
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hook(tmp_path: Path, receiver: Receiver) -> Path:
    path = tmp_path / "webhook"
    path.touch(mode=0o600)
    path.write_text(f"{receiver.url}\nAuthorization: Bearer {SECRET}\n")
    return path


@pytest.fixture
def sendmail(tmp_path: Path) -> Path:
    """A program that keeps its arguments and the mail."""
    path = tmp_path / "sendmail"
    path.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/argv\ncat >{tmp_path}/mail\n')
    path.chmod(0o755)
    return path


def delivered(config: NotifyConfig, channel: str, notice: Notice = NOTICE) -> list[str]:
    request = Request(notice=notice, channel=channel, cluster="demo", node="worker-1", at=0.0)
    return list(open_delivery(config)(request))


def settings(config: NotifyConfig, tmp_path: Path) -> Settings:
    return Settings(path=tmp_path / "holdfast.yaml", notify=config)


def turn_until(notifier: Notifier, reached: Callable[[], bool], ahead_s: float = 0.0) -> None:
    """Turns of the agent's loop, ``ahead_s`` in the future, until it is reached."""
    until = time.monotonic() + 60
    while not reached() or notifier.workers:
        assert time.monotonic() < until
        notifier.turn(time.monotonic() + ahead_s)
        select.select([worker.fd for worker in notifier.workers if worker.fd >= 0], [], [], 0.02)


def test_from_the_launcher_to_webhook_and_mail(
    tmp_path: Path,
    receiver: Receiver,
    hook: Path,
    sendmail: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = NotifyConfig(webhook_file=hook, mail=(str(sendmail), "-i", "{user}"))
    notifier = Notifier("worker-1", settings(config, tmp_path))
    with listening(7, notifier.take) as agent:
        launcher = Notices(7, 16, agent.run_dir)
        launcher.lost_s = 900.0
        launcher.tell(JobEvent.HELD, "the same failure 3 times", 3)
        agent.while_it_runs(launcher.finish)
    mail = tmp_path / "mail"
    turn_until(notifier, lambda: len(receiver.seen) == 1 and mail.exists())
    notifier.close()
    path, headers, facts = receiver.seen[0]
    assert (path, headers["Authorization"]) == (f"/{SECRET}", f"Bearer {SECRET}")
    assert facts["text"] == f"job 7 on cluster is held ({USER}): the same failure 3 times"
    known = {name: facts[name] for name in ("event", "job", "user", "attempt", "lost_gpu_hours")}
    assert known == {"event": "held", "job": 7, "user": USER, "attempt": 3, "lost_gpu_hours": 4.0}
    message = message_from_string(mail.read_text())
    assert (tmp_path / "argv").read_text() == f"-i {USER}\n"
    assert (message["To"], message["Subject"]) == (USER, "[holdfast] job 7 on cluster is held")
    assert "about 4.00 GPU hours" in message.get_payload()
    assert "scontrol release 7" in message.get_payload()
    logged = capsys.readouterr().err
    assert logged.count("notice sent") == 2
    assert SECRET not in logged


def test_a_failed_one_is_sent_again_and_the_log_has_no_secret(
    tmp_path: Path, receiver: Receiver, hook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = [500, 302]
    notifier = Notifier("worker-1", settings(NotifyConfig(webhook_file=hook), tmp_path))
    assert notifier.take(NOTICE) == ""
    for tries, ahead_s in enumerate((0.0, 61.0, 400.0), 1):
        turn_until(notifier, lambda: len(receiver.seen) == tries, ahead_s)  # noqa: B023
    turn_until(notifier, lambda: not notifier.workers)
    assert notifier.next_at == float("inf")
    notifier.close()
    assert {path for path, _, _ in receiver.seen} == {f"/{SECRET}"}, "a redirect is not followed"
    logged = capsys.readouterr().err
    assert "the webhook answers HTTP 500" in logged
    assert "notice sent" in logged
    assert SECRET not in logged


def test_a_receiver_that_hangs_or_is_gone_costs_its_time_limit(
    receiver: Receiver, hook: Path
) -> None:
    receiver.hangs.set()
    config = NotifyConfig(webhook_file=hook, timeout_s=0.2)
    assert delivered(config, "webhook") == ["the webhook does not answer within 0.2 s"]
    hook.write_text("http://127.0.0.1:1/x\n")
    assert delivered(config, "webhook") == ["the webhook: Connection refused"]


def test_a_mail_program_that_fails_or_hangs(tmp_path: Path, sendmail: Path) -> None:
    config = NotifyConfig(mail=(str(sendmail), "{user}@example.org"), timeout_s=0.5)
    sendmail.write_text("#!/bin/sh\nexit 75\n")
    assert delivered(config, "mail") == [f"{sendmail}: exit status 75"]
    sendmail.write_text("#!/bin/sh\nexec sleep 60\n")
    assert delivered(config, "mail") == [f"{sendmail}: no answer in 0.5 s"]
    sendmail.unlink()
    assert delivered(config, "mail")[0].startswith(f"{sendmail}: cannot start")
    stranger = replace(NOTICE, owner=2**31 - 5)
    assert delivered(config, "mail", stranger) == [f"uid {2**31 - 5} has no user name that fits"]
    assert not (tmp_path / "mail").exists()


def test_what_a_chat_would_interpret_is_escaped(receiver: Receiver, hook: Path) -> None:
    assert delivered(NotifyConfig(webhook_file=hook), "webhook") == []
    facts = receiver.seen[0][2]
    assert facts["text"] == f"job 7 on demo is held ({USER}): a &lt;b&gt; &amp; c"
    assert facts["why"] == "a <b> & c"


def test_each_event_has_words_of_its_own() -> None:
    requests = [
        Request(notice=replace(NOTICE, event=each), channel="mail", cluster="c", node="n", at=0.0)
        for each in JobEvent
    ]
    subjects = {message.subject(each) for each in requests}
    assert len(subjects) == len(JobEvent)
    assert "job 7 on c has become slower" in subjects


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_file_that_others_can_use_is_refused(hook: Path, mode: int) -> None:
    hook.chmod(mode)
    with pytest.raises(NotReadable, match="others than its owner"):
        webhook(hook)


@pytest.mark.parametrize(
    "text",
    ["", "ftp://x/y\n", "file:///etc/shadow\n", "https:///x\n", "http://x/\nno header\n", "\xe9"],
)
def test_a_file_of_another_form_is_refused_without_its_content(hook: Path, text: str) -> None:
    hook.write_text(text)
    problem = delivered(NotifyConfig(webhook_file=hook), "webhook")[0]
    assert problem.startswith(f"{hook}: ")
    assert "shadow" not in problem


def test_only_events_that_the_site_asked_for_are_told(tmp_path: Path, sendmail: Path) -> None:
    config = NotifyConfig(events=(JobEvent.FAILED,), mail=(str(sendmail),))
    for chosen in (config, NotifyConfig()):
        notifier = Notifier("worker-1", settings(chosen, tmp_path))
        assert notifier.take(NOTICE) == ""
        assert notifier.next_at == float("inf")


def test_a_user_cannot_send_without_a_limit(
    tmp_path: Path, sendmail: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = NotifyConfig(mail=(str(sendmail),), max_per_hour=2)
    notifier = Notifier("worker-1", settings(config, tmp_path))
    answers = [notifier.take(NOTICE) for _ in range(5)]
    assert answers == ["", ""] + ["too many notices of this user"] * 3
    assert notifier.take(replace(NOTICE, owner=ME + 1)) == "", "another user's own limit"
    assert capsys.readouterr().err.count("no longer sent") == 1


def test_the_queue_has_a_limit(tmp_path: Path, sendmail: Path) -> None:
    config = NotifyConfig(mail=(str(sendmail),), max_per_hour=10_000)
    notifier = Notifier("worker-1", settings(config, tmp_path))
    answers = {notifier.take(NOTICE) for _ in range(_MAX_WAITING + 1)}
    assert answers == {"", "too many notices are waiting"}


def test_nothing_is_sent_while_holdfast_is_switched_off(tmp_path: Path, sendmail: Path) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "all").touch()
    notifier = Notifier("worker-1", settings(NotifyConfig(mail=(str(sendmail),)), tmp_path))
    notifier.take(NOTICE)
    notifier.turn(time.monotonic())
    assert notifier.workers == []
    assert notifier.next_at == float("inf")


def test_a_launcher_bothers_no_agent_with_events_that_nobody_is_told() -> None:
    with listening(7) as agent:
        launcher = Notices(7, 0, agent.run_dir, NotifyConfig().told)
        launcher.tell(JobEvent.FAILED, "x", 1)
        agent.sockets.turn(0.0)
        assert len(list(agent.sockets.fds())) == 1, "no connection"
        assert launcher._threads == []


def test_a_launcher_without_an_agent_does_not_wait(tmp_path: Path) -> None:
    launcher = Notices(7, 0, tmp_path)
    began = time.monotonic()
    launcher.tell(JobEvent.FAILED, "x", 1)
    launcher.finish()
    assert time.monotonic() - began < 30
