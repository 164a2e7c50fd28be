"""Missing rights are named before the bridge starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.errors import UsageError
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.access import Right, needed, require
from k8s_bridge.kube.api import KubeUnauthorized, KubeUnavailable


class Reviews:
    def __init__(self, answer: Callable[[Right], bool]):
        self.may = answer


def refusing(error: Exception) -> Reviews:
    def answer(right: Right) -> bool:
        raise error

    return Reviews(answer)


def test_all_missing_verbs_are_in_one_line() -> None:
    without = Reviews(lambda right: right.verb != "patch" and right.resource != "events")
    with pytest.raises(UsageError) as caught:
        require(without, BridgeConfig(), "/etc/holdfast/kubeconfig")
    assert str(caught.value) == (
        "/etc/holdfast/kubeconfig: this account may not patch nodes, patch nodes/status, "
        "create events.events.k8s.io in default; add the rights: "
        "holdfast render rbac | kubectl apply -f -"
    )


def test_no_right_is_asked_for_that_is_not_used() -> None:
    assert len(needed(BridgeConfig())) == 6
    assert not [right for right in needed(BridgeConfig(events=False)) if right.resource == "events"]


def test_rejected_credentials_are_an_error_and_silence_is_none(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UsageError, match="rejects these credentials: POST: 401"):
        require(refusing(KubeUnauthorized("POST: 401: Unauthorized")), BridgeConfig(), "file")
    require(refusing(KubeUnavailable("connection refused")), BridgeConfig(), "file")
    assert "rights could not be checked" in capfd.readouterr().err
