"""``holdfast.pyz``: Holdfast as one file, for a machine that has Python 3.10 or newer and nothing else."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from packages.vendored import licences, modules

_START = b"#!/usr/bin/python3 -I\n"

_MAIN = b'''\
"""Runs `holdfast`, or with `-m MODULE` a part of Holdfast (holdfast/own_program.py)."""

import os
import runpy
import sys

sys.path[0] = os.path.abspath(sys.path[0])

if sys.argv[1:2] == ["-m"]:
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    from holdfast.cli.main import main

    sys.exit(main())
'''

_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip file can tell."""


def write(target: Path) -> None:
    """Writes the file, which is executable. The same tree gives the same bytes."""
    files = {
        "__main__.py": _MAIN,
        **modules(),
        **{f"licenses/{name}": text for name, text in licences().items()},
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _FIRST_DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # as on Unix: a file
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    target.write_bytes(_START + packed.getvalue())
    target.chmod(0o755)
