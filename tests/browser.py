"""A headless Chromium for tests of the status page, driven over a pipe (the DevTools protocol).

No driver package is needed: a message is JSON that ends with a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0
"""The limit of every wait: this machine may be busy."""


def program() -> str | None:
    """The browser on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One page of one browser. Use it as a context manager."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session = ""

    def __enter__(self) -> Browser:
        found = program()
        assert found is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        argv = [
            found, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--hide-scrollbars", f"--user-data-dir={self._folder}",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *argv],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self._send("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def open(self, url: str) -> None:
        """Load the page, and wait until it has shown its data once."""
        self._call("Page.navigate", url=url)
        self.until("document.body && document.body.dataset.live")

    def screen(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """The size of the window, and the colours that the system prefers."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until the expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.value(f"!!({expression})"):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.1)

    def picture(self, file: Path) -> None:
        """Save what the window shows, as PNG."""
        data = self._call("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def _send(self, method: str, **parameters: Any) -> int:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return number

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, **parameters)
        end = time.monotonic() + PATIENCE_S
        while True:
            message = self._message(end)
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                result: dict[str, Any] = message["result"]
                return result

    def _message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found
