"""Sends one notice by mail or to a webhook. Runs only in a contained worker: each may hang.

No text that it returns contains the webhook's URL or a header: they are secrets.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast.adapters import command, safe_file
from holdfast.errors import CommandError
from slurm_hooks.agent.notices.message import Request, body, document, subject
from slurm_hooks.settings.notify import NotifyConfig

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,127}")
_MAX_FILE_BYTES = 16384


def open_delivery(config: NotifyConfig) -> Callable[[object], Iterator[str]]:
    """Answers each request with why it could not be delivered; with nothing if it was."""

    def serve(request: object) -> Iterator[str]:
        if not isinstance(request, Request):
            raise TypeError(f"expected a Request, got {request!r}")
        send = _mail if request.channel == "mail" else _post
        problem = send(request, config)
        if problem:
            yield problem

    return serve


def _user(uid: int) -> str:
    """The owner's name; empty: unknown, or not fit for a command line."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""
    return name if _USER.fullmatch(name) else ""


def _mail(request: Request, config: NotifyConfig) -> str:
    user = _user(request.notice.owner)
    if not user:
        return f"uid {request.notice.owner} has no user name that fits"
    argv = [word.replace("{user}", user) for word in config.mail]
    to = next((word for word in argv[1:] if user in word and not word.startswith("-")), user)
    head = f"To: {to}\nSubject: [holdfast] {subject(request)}\nAuto-Submitted: auto-generated\n"
    plain = "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
    try:
        text = head + plain + "\n" + body(request)
        done = command.complete(argv, timeout_s=config.timeout_s, stdin=text)
    except (CommandError, OSError) as error:
        return f"{argv[0]}: {getattr(error, 'problem', '') or type(error).__name__}"
    return f"{argv[0]}: exit status {done.status}" if done.status else ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would send the headers, which are secrets, to another host."""

    def redirect_request(self, *_: object) -> None:
        return None


def _post(request: Request, config: NotifyConfig) -> str:
    assert config.webhook_file is not None  # noqa: S101 - the channel is chosen by it
    try:
        url, headers = webhook(config.webhook_file)
    except (OSError, ValueError) as error:
        return f"{config.webhook_file}: {getattr(error, 'strerror', None) or error}"
    user = _user(request.notice.owner) or str(request.notice.owner)
    data = json.dumps(document(request, user)).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "holdfast", **headers}
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        post = urllib.request.Request(url, data=data, headers=headers, method="POST")  # noqa: S310 - webhook()
        with opener.open(post, timeout=config.timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"the webhook answers HTTP {error.code}"
    except TimeoutError:
        return f"the webhook does not answer within {config.timeout_s:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"the webhook: {getattr(reason, 'strerror', None) or type(reason).__name__}"


def webhook(path: Path) -> tuple[str, dict[str, str]]:
    """URL and headers in the site's file. Raises OSError, also for a file that others than its owner can use,
    and ValueError for one of another user or that is not of this form."""
    opened = safe_file.open_secret(path)
    with opened.file as file:
        if opened.owner not in (0, os.geteuid()):
            raise ValueError("must belong to root")
        lines = _lines(file.read(_MAX_FILE_BYTES))
    if not lines or not re.fullmatch(r"https?://[^\s/]+(/\S*)?", lines[0]):
        raise ValueError("the first line must be a URL: https://HOST/PATH")
    headers = [line.partition(":") for line in lines[1:]]
    if not all(
        sep and re.fullmatch(r"[A-Za-z0-9-]+", name) and value.strip()
        for name, sep, value in headers
    ):
        raise ValueError("the lines after the first must be headers: NAME: VALUE")
    return lines[0], {name: value.strip() for name, _, value in headers}


def _lines(data: bytes) -> Sequence[str]:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise ValueError("not ASCII text") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
