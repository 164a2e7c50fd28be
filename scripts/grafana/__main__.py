"""``scripts/screenshots``: records a box with faults, and draws each dashboard of what it exported."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from testbed.box import Box
from testbed.errors import SandboxError
from testbed.paths import cache

from grafana import drawing
from grafana.prometheus import Prometheus, import_pages, programs
from grafana.recording import NODES, record
from holdfast.monitoring.dashboards import DASHBOARDS, json_of

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
BOX = "screenshots"


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(prog="scripts/screenshots", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="length of the recording (10)")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder (docs/images)")
    args = parser.parse_args()
    try:
        _take(args.minutes * 60, args.out)
    except SandboxError as error:
        print(f"scripts/screenshots: {error}", file=sys.stderr)
        return 2
    return 0


def _take(length_s: float, out: Path) -> None:
    script = drawing.bundle(cache() / "grafana")
    tools = programs(cache())
    box = Box.up(BOX, nodes=len(NODES))
    try:
        pages = record(box, length_s)
    finally:
        box.down()
    with tempfile.TemporaryDirectory() as folder:
        data = import_pages(tools, pages, Path(folder))
        with Prometheus(tools, data) as prometheus:
            for name, dashboard in DASHBOARDS.items():
                nodes = NODES if dashboard.several else NODES[1:2]
                picture = prometheus.answers(json_of(dashboard), pages, nodes)
                file = out / f"dashboard-{name}.png"
                drawing.draw(script, picture, file)
                print(file)


if __name__ == "__main__":
    sys.exit(main())
