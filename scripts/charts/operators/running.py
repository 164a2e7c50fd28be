"""A manager of another project, as somebody built it, on an API server of loopback without nodes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from testbed.kube.local import ApiServer

from charts.errors import NotHeld

_WAIT_S = 90.0


class Running:
    """The program between ``with`` and its end; ``name`` is what messages call it.

    It ends with the thread that started it.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        server: ApiServer,
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._argv, self._log = name, argv, log
        self._env = {**os.environ, "KUBECONFIG": str(server.kubeconfig), **(env or {})}

    def __enter__(self) -> Running:
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self._argv],
                env=self._env,
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        """Raises ``NotHeld`` if the program ends or does not make it within 90 s."""
        end = time.monotonic() + _WAIT_S
        while not happened():
            if self._child.poll() is not None:
                raise NotHeld(
                    f"{self._name} ended with status {self._child.returncode}{self._why()}"
                )
            if time.monotonic() > end:
                raise NotHeld(
                    f"{self._name} did not make {what} within {_WAIT_S:.0f} s{self._why()}"
                )
            time.sleep(0.5)

    def _why(self) -> str:
        """The last error in its log."""
        errors = re.findall(r'"error":"((?:[^"\\]|\\.)*)"', self._log.read_text(errors="replace"))
        return f": {errors[-1]}" if errors else ""
