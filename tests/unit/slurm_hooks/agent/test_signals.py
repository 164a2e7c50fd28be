"""The agent's signals: held while it restarts, none of them lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from slurm_hooks.agent.signals import CAUGHT, Signals


@pytest.fixture
def signals() -> Iterator[Signals]:
    handlers = {number: signal.getsignal(number) for number in CAUGHT}
    fd = signal.set_wakeup_fd(-1)
    yield Signals()
    signal.set_wakeup_fd(fd)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CAUGHT)


@pytest.mark.parametrize(
    ("arrived", "restart"), [([signal.SIGHUP], True), ([signal.SIGHUP, signal.SIGTERM], False)]
)
def test_a_stop_goes_before_a_restart(
    signals: Signals, arrived: list[signal.Signals], restart: bool
) -> None:
    signals.catch()
    for number in arrived:
        signal.raise_signal(number)
    assert signals.stop_requested
    assert signals.restart_requested is restart


def test_a_signal_that_is_held_arrives_when_it_is_caught_again(signals: Signals) -> None:
    signals.catch()
    signals.hold()
    signal.raise_signal(signal.SIGTERM)  # to this thread: a test has others
    assert not signals.stop_requested
    restarted = Signals()
    restarted.catch()
    assert restarted.stop_requested
    assert not restarted.restart_requested
