"""What tells the agent to end: signals, as a descriptor that its poll waits for."""

from __future__ import annotations

import os
import signal


class Signals:
    """``fd`` turns readable when a signal came."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._signals: set[int] = set()

    def catch(self) -> None:
        """From now on SIGTERM and SIGINT ask for the end, SIGHUP for a fresh start."""

        def note(number: int, _frame: object) -> None:
            self._signals.add(number)

        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, note)

    def request(self, number: signal.Signals) -> None:
        """The agent's own wish, as if the signal had come."""
        self._signals.add(number)

    @property
    def stop_requested(self) -> bool:
        """The end is asked for, one way or the other."""
        return bool(self._signals)

    @property
    def restart_requested(self) -> bool:
        """And a fresh start after it."""
        return self._signals == {signal.SIGHUP}

    def clear(self) -> None:
        """Take out what woke the poll."""
        try:
            os.read(self.fd, 512)
        except BlockingIOError:
            pass
