"""A command in a box, ended from outside."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from testbed.namespaces import enter


def test_ctrl_c_raises_keyboard_interrupt_although_the_command_has_ended_too() -> None:
    """A terminal's Ctrl-C ends the command as well, so no process is left to kill."""
    # As at a terminal: a background job ignores SIGINT, and Python keeps that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            enter.run(["sleep", "0.3"], shown=["sleep"], timeout_s=10, check=True)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
