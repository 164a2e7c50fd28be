"""What the bridge serves over HTTP beside the status page: probes and metrics."""
