"""A command in a box, ended from outside."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from testbed import enter


def test_ctrl_c_is_told_as_such_though_the_command_ends_by_it_too() -> None:
    """A terminal's Ctrl-C ends the command meanwhile: there is nothing left to kill then."""
    # As at a terminal: in a background job SIGINT is ignored, and Python leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            enter.run(["sleep", "0.3"], shown=["sleep"], timeout_s=10, check=True)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
