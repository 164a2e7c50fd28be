"""The files that both packages install.

``/opt/holdfast`` is a Python environment without pip. Its ``lib/python3.N`` are links to one folder:
every module is pure Python, so the package fits every Python from 3.10 on, also after an upgrade.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field

from holdfast.cli.commands.render import render_text
from holdfast.version import VERSION
from packages.sbom import PACKAGE, cyclonedx
from packages.vendored import components, licences, modules

HOME = "opt/holdfast"
HOOKS = ("prolog", "epilog", "health_check")
SUMMARY = "Health of GPU nodes, and restarts of jobs, for Slurm"
ABOUT = "Probes the node, drains it when it is faulty, and restarts jobs from their last good checkpoint."
"""What the packages say about themselves."""

_PYTHONS = range(10, 20)
_SITE = f"{HOME}/lib/python3/site-packages"
_PROGRAM = f"""\
#!/{HOME}/bin/python -I
import sys

from holdfast.cli.main import main

sys.exit(main())
"""
_ENVIRONMENT = "home = /usr/bin\ninclude-system-site-packages = false\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """``files``: path without the first ``/`` → content. ``programs``: those that are executable.
    ``links``: path → where it leads.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
    links: dict[str, str] = field(default_factory=dict)

    @property
    def folders(self) -> list[str]:
        """All folders, each before what is in it."""
        found = set()
        for name in (*self.files, *self.links):
            words = name.split("/")[:-1]
            found |= {"/".join(words[: end + 1]) for end in range(len(words))}
        return sorted(found)


def tree() -> Tree:
    """Raises ``SandboxError`` where this checkout's environment is not that of the lock."""
    hook = f"{_SITE}/slurm_hooks/hook"
    program = f"{HOME}/bin/holdfast"
    files = {
        **{f"{_SITE}/{name}": content for name, content in modules().items()},
        **{f"{HOME}/licenses/{name}": content for name, content in licences().items()},
        f"{HOME}/sbom.cdx.json": _sbom().encode(),
        f"{HOME}/pyvenv.cfg": _ENVIRONMENT.encode(),
        program: _PROGRAM.encode(),
        "usr/lib/systemd/system/holdfast-agent.service": render_text("systemd").encode(),
        "usr/share/bash-completion/completions/holdfast": render_text("bash-completion").encode(),
        "usr/share/man/man1/holdfast.1.gz": gzip.compress(
            render_text("man-page").encode(), mtime=0
        ),
    }
    links = {
        f"{HOME}/bin/python": "/usr/bin/python3",
        f"{HOME}/bin/python3": "python",
        **{f"{HOME}/lib/python3.{minor}": "python3" for minor in _PYTHONS},
        **{f"{HOME}/hooks/{name}": f"/{hook}" for name in HOOKS},
        "usr/bin/holdfast": f"/{program}",
    }
    return Tree(files=files, programs=frozenset({program, hook}), links=links)


def _sbom() -> str:
    found = [
        PACKAGE.format(kind="pypi", name=one.name, version=one.version) for one in components()
    ]
    licence = {one.name: one.licence for one in components()}
    return json.dumps(cyclonedx("holdfast", VERSION, found, licence), indent=1) + "\n"
