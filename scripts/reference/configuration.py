"""docs/reference/configuration.md: every key, read from the dataclasses that define it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.config.sections import SECTIONS, schema_of
from holdfast.vocabulary import Mode
from reference.schema import Key, keys_of, plain
from slurm_hooks import checks
from slurm_hooks.settings.sections import CheckConfig

_HEAD = """\
# Configuration

<!-- Written by scripts/docs_reference from the code. Edit the dataclasses, not this page. -->

The configuration is one YAML file: `--config FILE` if a command has this option, else
`$HOLDFAST_CONFIG`, else `/etc/holdfast/holdfast.yaml`. A missing file, section or key means its
default. An unknown key, a duplicate key and a value out of range are errors; each one is reported
with file, line and key. `holdfast config check FILE` shows all of them at once. Each program reads
only its own sections, so a mistake in `bridge` stops no agent. Units are part of the name of a key:
`_s` is seconds, `_per_s` is a rate.

On Soperator, on Slinky and for the bridge's Deployment a file of this form is an input:
`extra_configuration` of `holdfast render` and of the Terraform modules adds its sections to what
the other values write.

The programs that read each section, and what they do with a broken file:

| section | read by | with an invalid file |
|---|---|---|
| `cluster`, `paths`, `slurm` | all programs | as below |
| `node`, `agent`, `checks` | the agent, the hooks, `holdfast check` | see below |
| `active` | `holdfast inspect`, the return test | nothing is tested; `inspect` exits with status 2 |
| `job` | `holdfast run`, the agent | `holdfast run` reports it and uses the defaults |
| `notify` | the agent | see below |
| `bridge` | `holdfast bridge` | it does not start (status 2) |

The agent uses the last configuration that it accepted; without one it exits. A hook that cannot
read the file reports it and leaves the node in service.

## Kill switches

Kill switches are files in the folder `off` beside the configuration. Their content does not matter,
and they work when the configuration cannot be read. A folder that cannot be listed counts as
`off/all`.

| file | effect |
|---|---|
| `off/CHECK` | that check does not run |
| `off/bridge` | the bridge writes conditions, label and Events, and does nothing else |
| `off/node_death` | this node's agent sets no other node DOWN |
| `off/fence` | this node's agent neither stops nor kills tasks of an attempt that a newer one may have replaced |
| `off/all` | checks still run; no drain, comment, kill, requeue, cordon or taint |
"""

_TITLES = {
    "paths": "files and folders",
    "slurm": "Slurm's commands",
    "node": "the expected state of a node",
    "agent": "the agent",
    "active": "active checks",
    "job": "jobs under `holdfast run`",
    "notify": "mail and webhook about jobs",
    "bridge": "the bridge",
}

_CHECKS = """
## `checks`: modes and limits of checks

One entry for each check. For what each one looks at see [checks.md](checks.md).

| key | type | default | allowed | meaning |
|---|---|---|---|---|
| `checks.CHECK.mode` | word | {default} | {modes} | what the check may do: see below |

- `off`: the check does not run.
- `observe`: its findings are in the verdict file and in `holdfast check`.
- `comment`: they are also written to the node's Comment.
- `drain`: the node is drained for those that may drain ([faults.md](faults.md)).

Every check has `limits.open_after` and `limits.clear_after`: how many passes in a row open a
finding, and how many close it. The meaning of the other limits is at the check, which each name
links to.
"""


def configuration_page() -> str:
    """The page."""
    parts = [_HEAD, "\n## `cluster`\n\nText, default `cluster`: the cluster's name.\n"]
    for name in SECTIONS:
        if name in _TITLES:
            parts.append(
                f"\n## `{name}`: {_TITLES[name]}\n\n{table(keys_of(schema_of(name), name))}"
            )
        elif name == "checks":
            parts.append(_checks())
    return "".join(parts)


def _limit_keys() -> Iterator[Key]:
    for name in checks.CATALOGUE:
        yield from keys_of(checks.load(name).limits, f"checks.{name}.limits")


def all_keys() -> Iterator[Key]:
    """Every key of the configuration, including those of the checks, without those of a list's items."""
    for name in SECTIONS:
        if name in _TITLES:
            yield from (key for key in keys_of(schema_of(name), name) if "[]" not in key.path)
    yield from _limit_keys()


def _checks() -> str:
    default: Any = CheckConfig.__dataclass_fields__["mode"].default
    modes = ", ".join(mode.value for mode in Mode)
    return _CHECKS.format(default=f"`{plain(default)}`", modes=modes) + "\n" + table(_limit_keys())


def table(keys: Iterable[Key]) -> str:
    """A Markdown table of keys. The column "meaning" is omitted if no key has one."""
    rows = list(keys)
    meanings = any(key.meaning for key in rows)
    head = ("key", "type", "unit", "default", "allowed", *(("meaning",) if meanings else ()))
    lines = [_row(head), "|" + "---|" * len(head)]
    for key in rows:
        cells = (_linked(key.path), key.kind, key.unit, f"`{key.default}`", key.allowed)
        lines.append(_row((*cells, *((key.meaning,) if meanings else ()))))
    return "\n".join(lines) + "\n"


def _linked(path: str) -> str:
    """A limit links to its check."""
    section, _, rest = path.partition(".")
    return f"[`{path}`](checks.md#{rest.partition('.')[0]})" if section == "checks" else f"`{path}`"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("``", "`") for cell in cells) + " |"
