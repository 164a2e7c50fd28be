"""Notices a change of the configuration while the bridge runs.

A ConfigMap in a pod is replaced by a symbolic link, so the file's content is compared and not its time. A
configuration that cannot be used changes nothing: the bridge goes on with the previous one and says so. It
is checked again from time to time, as what is missing may be outside of the file: a Role, a token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.adapters.log import Log
from holdfast.errors import HoldfastError

log = Log("bridge")

LOOK_S = 2.0
"""The time between two looks at the file."""
AGAIN_S = 30.0
"""The time after which a configuration that could not be used is checked again."""
_MOST_BYTES = 4 << 20
_NEVER = float("inf")


class ConfigWatch:
    """``check`` raises ``HoldfastError`` if the file cannot be used. ``changed`` is called once, when a new
    content can be used. ``invalid`` is called with every change between usable and unusable.
    """

    def __init__(
        self,
        path: Path,
        check: Callable[[], object],
        changed: Callable[[], None],
        invalid: Callable[[bool], None],
    ):
        self._path, self._check = path, check
        self._changed, self._invalid = changed, invalid
        self._known = self._content()
        self._again_at = _NEVER
        self._said = ""
        self._ask, self._stopped = threading.Event(), threading.Event()

    def start(self) -> None:
        """Look at the file until ``stop``, or until it changed."""
        threading.Thread(target=self._run, name="configuration", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._ask.set()

    def ask(self) -> None:
        """Look now (SIGHUP), also at a content that could not be used before."""
        if self._again_at < _NEVER:
            self._again_at = time.monotonic()
        self._ask.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._ask.wait(LOOK_S)
            self._ask.clear()
            if not self._stopped.is_set() and self.look():
                return

    def look(self) -> bool:
        """One look. True: the file changed, it can be used, and ``changed`` was called."""
        content = self._content()
        if content == self._known and time.monotonic() < self._again_at:
            return False
        if content != self._known:
            self._said = ""
        self._known, self._again_at = content, _NEVER
        if content is None:  # it would mean all defaults
            log.error("configuration not reloaded", why=f"{self._path} is gone or cannot be read")
            self._invalid(True)
            return False
        try:
            self._check()
        except HoldfastError as error:
            self._not_used(str(error))
            return False
        except Exception as error:
            log.exception("configuration not reloaded", error)
            self._invalid(True)
            return False
        self._invalid(False)
        self._changed()
        return True

    def _not_used(self, why: str) -> None:
        """The same problem is logged once."""
        for line in why.splitlines() if why != self._said else ():
            log.error("configuration not reloaded; the previous one is used", why=line)
        self._said, self._again_at = why, time.monotonic() + AGAIN_S
        self._invalid(True)

    def _content(self) -> bytes | None:
        """None: there is no such file, or it cannot be read."""
        try:
            with self._path.open("rb") as file:
                return file.read(_MOST_BYTES)
        except OSError:
            return None
