"""Draws a dashboard with Grafana's own components (@grafana/ui), in a headless Chromium."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.errors import SandboxError

_PAGE = Path(__file__).parent / "page"
_WIDTH_PX = 1400
_ROW_PX = 38
"""One cell of Grafana's grid, as in dashboard.jsx."""

_HTML = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{css}">
<style>body {{ margin: 0 }}</style><div id="root"></div>
<script>window.picture = {picture}</script><script src="{script}"></script>
"""


def bundle(folder: Path) -> Path:
    """The folder with dashboard.js and dashboard.css, made once for each version of ``page/``.

    Raises ``SandboxError`` where npm or esbuild fails.
    """
    sources = sorted(_PAGE.iterdir())
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    made = folder / digest
    if (made / "dashboard.css").exists():
        return made
    made.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for source in sources:
            shutil.copy(source, scratch)
        _run(
            ["npm", "ci", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund"],
            scratch,
        )
        esbuild = [
            "node_modules/.bin/esbuild", "dashboard.jsx", "--bundle", "--minify",
            "--loader:.svg=dataurl", "--loader:.ttf=dataurl",
            '--define:process.env.NODE_ENV="production"', "--outfile=out/dashboard.js",
        ]  # fmt: skip
        _run(esbuild, scratch)
        for name in ("dashboard.js", "dashboard.css"):
            (Path(scratch) / "out" / name).rename(made / name)
    return made


def draw(script: Path, picture: Mapping[str, Any], file: Path) -> None:
    """One dashboard as a PNG in ``file``. Raises ``SandboxError`` where Chromium draws nothing."""
    bottom = max(
        panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in picture["model"]["panels"]
    )
    shown = json.dumps({**picture, "mode": "light"}).replace("<", "\\u003c")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        names = {name: (script / f"dashboard.{name}").as_uri() for name in ("js", "css")}
        page.write_text(_HTML.format(css=names["css"], script=names["js"], picture=shown))
        _run(
            [
                _chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={folder}/profile", f"--window-size={_WIDTH_PX},{(bottom + 2) * _ROW_PX}",
                "--virtual-time-budget=20000", f"--screenshot={file}", page.as_uri(),
            ],
            folder,
        )  # fmt: skip
    if not file.is_file():
        raise SandboxError(f"Chromium has not written {file}")


def _chromium() -> str:
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        raise SandboxError("no Chromium here: apt-get install chromium")
    return found


def _run(argv: list[str], folder: str) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SandboxError(f"{argv[0]}: {(done.stderr or done.stdout).strip()[-600:]}")
