"""The Grafana dashboards: the cluster, one node, and the nodes of a job.

DASHBOARDS               name → dashboard
json_of(dashboard)       its JSON model
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.monitoring.dashboards.cluster import CLUSTER
from holdfast.monitoring.dashboards.grafana import json_of
from holdfast.monitoring.dashboards.nodes import JOB, NODE
from holdfast.monitoring.dashboards.panel import Dashboard

DASHBOARDS: Mapping[str, Dashboard] = {one.name: one for one in (CLUSTER, NODE, JOB)}

__all__ = ["DASHBOARDS", "Dashboard", "json_of"]
