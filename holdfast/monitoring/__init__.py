"""What Prometheus and Grafana need to show Holdfast: alert rules, scrape targets, dashboards.

All of it is made from the names of the metrics of the agent and the bridge (docs/reference/metrics.md).
"""

PACKAGE = "holdfast.monitoring"
"""Where the templates are."""

JOIN = "* on (job, instance) group_left (node) holdfast_agent_info"
"""The agent's metrics have no label for the node in Slurm: ``holdfast_agent_info`` has it."""
