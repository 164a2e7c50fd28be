"""Signals that stop or restart the agent, as a file descriptor for its poll."""

from __future__ import annotations

import os
import signal

CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """``fd`` becomes readable when a signal arrives."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._signals: set[int] = set()

    def catch(self) -> None:
        """From now on SIGTERM and SIGINT request a stop, SIGHUP a restart. So do those that arrived
        since ``hold``."""

        def note(number: int, _frame: object) -> None:
            self._signals.add(number)

        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in CAUGHT:
            signal.signal(number, note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CAUGHT)

    def hold(self) -> None:
        """Keep later signals pending until ``catch``, also that of the program that this process
        executes meanwhile: else a SIGTERM during a restart is lost."""
        signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)

    def request(self, number: signal.Signals) -> None:
        """Act as if the signal had arrived."""
        self._signals.add(number)

    @property
    def stop_requested(self) -> bool:
        """The agent has to stop, perhaps to restart."""
        return bool(self._signals)

    @property
    def restart_requested(self) -> bool:
        """The agent has to restart after the stop."""
        return self._signals == {signal.SIGHUP}

    def clear(self) -> None:
        """Empty the descriptor after a poll."""
        try:
            os.read(self.fd, 512)
        except BlockingIOError:
            pass
