"""Pictures of the Grafana dashboards: a box with faults, a real Prometheus, Grafana's own components."""
