"""``holdfast render``: manifests, slurm.conf lines, batch scripts. The only ``import jinja2``."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import HoldfastError, UsageError

_FOLDER = Path(__file__).parent / "templates"
REQUIRED = ""
"""A default that says: this value has none, it must be given."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to render: its template, what each value may look like and its default."""

    file: str
    about: str
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PATH = r"/[\w./%@+-]*"
_NUMBER = r"[1-9][0-9]{0,5}"
_BOOL = r"true|false"
_IMAGE = r"[\w.:/@-]+"
# What: template, description, and value → (pattern, default).
DOCUMENTS: Mapping[str, Document] = {
    "rbac": Document("rbac.yaml", "namespace, account and rights of the bridge"),
    "deployment": Document(
        "deployment.yaml.j2",
        "the bridge as a Deployment, with its configuration",
        {
            "image": (_IMAGE, REQUIRED),
            "slurm_conf_configmap": (_NAME, "slurm-conf"),
            "slurm_auth_secret": (_NAME, "slurm-auth"),
            "auth_path": (_PATH, "/etc/slurm-auth"),
            "namespace": (_NAME, "holdfast"),
            "cluster": (r"[\w.-]+", "cluster"),
            "slurm_user": (r"[a-z_][a-z0-9_-]*", "holdfast"),
            "uid": (_NUMBER, "2000"),
            "poll_s": (r"[0-9]+(\.[0-9]+)?", "2"),
            "cordon": (_BOOL, "true"),
            "taint": (_BOOL, "true"),
            "drain_on_cordon": (_BOOL, "true"),
        },
    ),
    "slurm-conf": Document(
        "slurm.conf.j2",
        "the lines of slurm.conf that call the hooks",
        {"hooks": (_PATH, "/opt/holdfast/hooks"), "health_check_interval_s": (_NUMBER, "30")},
    ),
    "sbatch": Document(
        "job.sbatch.j2",
        "a batch script that resumes after a node fails",
        {
            "command": (r"[^\n]+", "python train.py"),
            "checkpoints": (_PATH, "/mnt/training/checkpoints"),
            "name": (r"[\w.-]+", "train"),
            "nodes": (_NUMBER, "2"),
            "tasks_per_node": (_NUMBER, "8"),
            "gpus_per_node": (_NUMBER, "8"),
            "output": (_PATH, "/mnt/training/%x-%j.out"),
        },
    ),
}


def render_text(what: str, **values: str) -> str:
    """The document's text. Raises ``UsageError`` for a word, a name or a value it cannot take."""
    document = DOCUMENTS.get(what)
    if document is None:
        raise UsageError(f"nothing called {what!r} to render{_suggest(what, DOCUMENTS)}")
    chosen = {name: default for name, (_, default) in document.values.items()}
    for name, value in values.items():
        if name not in chosen:
            raise UsageError(f"{what}: no value is called {name!r}{_suggest(name, chosen)}")
        chosen[name] = str(value)
    for name, (pattern, _) in document.values.items():
        if not chosen[name]:
            raise UsageError(f"{what}: {name} has no default; give it with --set {name}=…")
        if not re.fullmatch(pattern, chosen[name]):
            raise UsageError(f"{what}: {name}={chosen[name]!r} does not match {pattern}")
    source = (_FOLDER / document.file).read_text(encoding="utf-8")
    return _filled(source, chosen) if document.file.endswith(".j2") else source


def _filled(source: str, values: Mapping[str, str]) -> str:
    try:
        import jinja2  # noqa: PLC0415 - its one owner; plain documents need none
    except ImportError:
        raise UsageError("this document needs jinja2: pip install 'holdfast[bridge]'") from None

    environment = jinja2.Environment(  # noqa: S701 - YAML and shell, not HTML; values are checked
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(source).render(values)


def _suggest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(names)}" if names else "; it takes none"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``holdfast render``. Exit status 0, or 2 when used wrongly."""
    rows = [f"  {name:12}{document.about}" for name, document in DOCUMENTS.items()]
    parser = argparse.ArgumentParser(
        prog="holdfast render",
        description="Print a document to be applied, included or submitted:\n" + "\n".join(rows),
        epilog="example: holdfast render rbac | kubectl apply -f -",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", metavar="WHAT", help=", ".join(DOCUMENTS))
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], dest="settings")
    parser.add_argument("--values", action="store_true", help="print the values it takes instead")
    arguments = parser.parse_args(argv)
    try:
        text = _values(arguments.what) if arguments.values else _render(arguments)
    except HoldfastError as error:
        sys.stderr.write(f"holdfast render: {error}\n")
        return 2
    sys.stdout.write(text)
    return 0


def _render(arguments: argparse.Namespace) -> str:
    pairs = [setting.partition("=") for setting in arguments.settings]
    bad = next((name for name, equals, _ in pairs if not equals or not name), None)
    if bad is not None:
        raise UsageError(f"--set takes NAME=VALUE, got {bad!r}")
    return render_text(arguments.what, **{name: value for name, _, value in pairs})


def _values(what: str) -> str:
    document = DOCUMENTS.get(what)
    if document is None:
        raise UsageError(f"nothing called {what!r} to render{_suggest(what, DOCUMENTS)}")
    rows = [f"{name}={default}" for name, (_, default) in document.values.items()]
    return "".join(f"{row}\n" for row in rows)
