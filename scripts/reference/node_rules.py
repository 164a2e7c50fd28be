"""docs/reference/node-rules.md: the built-in rules of the bridge, read from their catalogue."""

from __future__ import annotations

from k8s_bridge.names import KUBE_RULE, RULES_LABEL
from k8s_bridge.rules.catalogue import BUILT_IN
from k8s_bridge.rules.rule import Rule

_HEAD = """\
# Node rules

<!-- Written by scripts/docs_reference from k8s_bridge/rules/catalogue.py. Edit that. -->

A rule drains a node in Slurm for what Kubernetes shows of it: a condition or a taint of its Node,
or a condition of its worker pod. Every rule below is in mode `observe` until the configuration
raises it:

```yaml
bridge:
  rules:
    - {{use: nebius-gpu-error, mode: drain}}
    - {{use: not-ready, mode: drain, hold_s: 600}}
    - {{name: fan, condition: FanFailed, bad: ["True", Unknown], hold_s: 60, mode: drain}}
    - {{name: decommission, taint: example.org/leaves=yes, mode: drain, jobs: leave, notice_s: 1800}}
```

For the Deployment this is a file for `extra_configuration`
([install-bridge.md](../howto/install-bridge.md), [Terraform](../howto/terraform.md)).

- `observe`: the condition `HoldfastSlurmDrained` says what the rule would do. `off`: nothing.
- hold: seconds that the rule must match without a break before the drain. clear: seconds that it
  must not match before the undrain. The time of a condition's last transition counts, so a restart
  of the bridge changes nothing. A condition that changes faster than `hold_s` drains nothing; the
  log has one line.
- bad: the statuses that match. `absent`: the Node has no such condition.
- jobs: `stay`: running jobs continue. `leave`: the machine is going to be stopped, so jobs of
  `holdfast run` save a checkpoint and are requeued before it
  ([restarts.md](restarts.md#a-machine-that-is-going-to-be-stopped)). The time is that in the
  condition's message (`deadline is 2026-11-20T12:00:00Z`; Nebius asks that jobs end an hour
  earlier), the end of the pod's grace period, or `notice_s` after the signal began. It is in the
  reason as `until` (seconds since 1970). Without a known time, jobs leave as from a degraded node.
- `worker-pod-disrupted` needs `bridge.worker_pods_namespace`, and the rights of
  `holdfast render worker-pods`: the bridge watches the pods there, whose names are those of the
  Slurm nodes.
- The reason in Slurm has the code `{code}` and the rule's name. The bridge ends only its own
  drains, and none that a person has changed. It waits while the node is DOWN, does not respond, has
  a requested reboot, or its agent reports a fatal fault in the node's Comment.
- Undrain a node by hand, and it stays in service until the rule has cleared and matches again, or
  another rule matches. The label `{label}: "off"` on the Node ends all rules for it.
- The budget: at most `bridge.budget.max_nodes` or `max_share` of the nodes are out of service by
  Holdfast, agents included, and `domain_share` of a failure domain: a leaf switch or block of
  Slurm's topology, or the Nodes with one value of the label `domain_label`. If rules match more
  than `incident_share` of the cluster, or of a failure domain, it is an incident: no further node
  is drained for it, and the bridge says so in the log and in the condition.
- A rule may not look at conditions that show Slurm's own state, such as those of Holdfast and
  Soperator: a drain for them would never end. The bridge's drains never isolate a Node.

| rule | matches | hold | clear | jobs | source |
|---|---|---|---|---|---|
"""


def node_rules_page() -> str:
    """The page."""
    head = _HEAD.format(code=KUBE_RULE, label=RULES_LABEL)
    return head + "".join(_row(rule) for rule in BUILT_IN.values())


def _row(rule: Rule) -> str:
    if rule.condition:
        matches = f"condition `{rule.condition}`: {', '.join(rule.bad)}"
    elif rule.taint:
        matches = f"taint `{rule.taint}`"
    elif rule.pod:
        matches = f"condition `{rule.pod}` of the worker pod"
    else:
        matches = "no Node of that name any more"
    times = f"{rule.hold_s:g} s", f"{rule.clear_s:g} s"
    cells = (f"`{rule.name}`", matches, *times, _jobs(rule), rule.about)
    return "| " + " | ".join(cells) + " |\n"


def _jobs(rule: Rule) -> str:
    notice = "" if rule.notice_s is None else f", {rule.notice_s:g} s"
    return f"{rule.jobs.value}{notice}"
