"""docs/reference/configuration.md: every key, read off the dataclasses that take it."""

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

<!-- Made by scripts/docs_reference from the code. Edit the dataclasses, not this page. -->

One YAML file: `--config FILE` where a command has it, else `$HOLDFAST_CONFIG`, else
`/etc/holdfast/holdfast.yaml`. A missing file, section or key means its default. An unknown key, a
key given twice and a value out of range are errors that name file, line and key;
`holdfast config check FILE` shows all of them at once. Each program reads only its own sections,
so a mistake in `bridge` stops no agent. Units are part of a key's name: `_s` is seconds.

Each section's owner, and what a broken file does to it:

| section | read by | with a broken file |
|---|---|---|
| `cluster`, `paths`, `slurm` | everything | as below |
| `node`, `agent`, `checks` | the agent, the hooks, `holdfast check` | a running agent keeps its own; a new one ends |
| `active` | `holdfast inspect`, the agent's gate | nothing is tested; `inspect` ends with status 2 |
| `job` | `holdfast run` and the agent's care for its jobs | `holdfast run` says so and goes on with the defaults |
| `bridge` | `holdfast bridge` | it does not start (status 2) |

A hook that cannot read the file says so and leaves the node in service.

## Kill switches

Files in the folder `off` beside the configuration; their content does not matter, and they work
when the configuration cannot be read. A folder that cannot be listed counts as `off/all`.

| file | effect |
|---|---|
| `off/CHECK` | that check does not run |
| `off/bridge` | the bridge goes on writing conditions, label and Events, and does nothing else |
| `off/all` | checks still look; nothing is drained, commented, ended, requeued, cordoned or tainted |
"""

_TITLES = {
    "paths": "where this machine's things lie",
    "slurm": "how Slurm is asked",
    "node": "what the node is meant to be",
    "agent": "how the agent works",
    "active": "tests that load a node",
    "job": "jobs under `holdfast run`",
    "bridge": "Slurm and Kubernetes in step",
}

_CHECKS = """
## `checks`: which check may do what

One entry for each check; [checks.md](checks.md) says what each one looks at.

| key | type | default | allowed | meaning |
|---|---|---|---|---|
| `checks.CHECK.mode` | word | {default} | {modes} | what it may do with findings: see below |

`off`: it does not run. `observe`: its findings show in the verdict file and in `holdfast check`.
`comment`: they are also written to the node's Comment. `drain`: the node leaves service for those that
[faults.md](faults.md) lets drain.

Every check has `limits.open_after` and `limits.clear_after`: how many looks in a row open a
finding, and how many close it.
"""


def configuration_page() -> str:
    """The whole page."""
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
    """Every key that the configuration knows, the checks' included."""
    for name in SECTIONS:
        if name in _TITLES:
            yield from keys_of(schema_of(name), name)
    yield from _limit_keys()


def _checks() -> str:
    default: Any = CheckConfig.__dataclass_fields__["mode"].default
    modes = ", ".join(mode.value for mode in Mode)
    return _CHECKS.format(default=f"`{plain(default)}`", modes=modes) + "\n" + table(_limit_keys())


def table(keys: Iterable[Key]) -> str:
    """A Markdown table of keys; the last column only where a key has words of its own."""
    rows = list(keys)
    told = any(key.meaning for key in rows)
    head = ("key", "type", "unit", "default", "allowed", *(("meaning",) if told else ()))
    lines = [_row(head), "|" + "---|" * len(head)]
    for key in rows:
        cells = (f"`{key.path}`", key.kind, key.unit, f"`{key.default}`", key.allowed)
        lines.append(_row((*cells, *((key.meaning,) if told else ()))))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("``", "`") for cell in cells) + " |"
