"""What a notice says, as a mail and as JSON for a webhook. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from slurm_hooks.job.notice import Notice
from slurm_hooks.settings.notify import JobEvent

_VERBS = {
    JobEvent.RESTARTED: "restarts",
    JobEvent.HELD: "is held",
    JobEvent.FAILED: "has failed",
    JobEvent.SLOW: "has become slower",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One notice for one channel. ``cluster``, ``node``: where it comes from; ``at``: epoch seconds."""

    notice: Notice
    channel: str
    cluster: str
    node: str
    at: float


def subject(request: Request) -> str:
    """One line for a subject or a chat."""
    notice = request.notice
    return f"job {notice.job} on {request.cluster} {_VERBS[notice.event]}"


def body(request: Request) -> str:
    """The mail's text."""
    notice = request.notice
    rows = [f"{subject(request)}: {notice.why}", "", f"attempt    {notice.attempt}"]
    if notice.lost_s:
        hours = f", about {notice.lost_gpu_hours:.2f} GPU hours" if notice.gpus else ""
        rows.append(f"work lost  {notice.lost_s:.0f} s{hours}")
    rows.append(f"all of it  holdfast explain {notice.job}")
    if notice.event is JobEvent.HELD:
        rows.append(f"release it scontrol release {notice.job}, once the cause is fixed")
    return "\n".join(rows) + "\n"


def document(request: Request, user: str) -> dict[str, object]:
    """The JSON for a webhook. ``text`` is for receivers of Slack's form, which requires that &, < and >
    are escaped."""
    notice = request.notice
    text = f"{subject(request)} ({user}): {notice.why}"
    for char, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(char, escaped)
    return {
        "event": notice.event.value,
        "job": notice.job,
        "user": user,
        "cluster": request.cluster,
        "node": request.node,
        "attempt": notice.attempt,
        "why": notice.why,
        "lost_s": round(notice.lost_s, 1),
        "lost_gpu_hours": round(notice.lost_gpu_hours, 3) if notice.gpus else None,
        "at": datetime.fromtimestamp(request.at, tz=timezone.utc).isoformat(timespec="seconds"),
        "text": text,
    }
