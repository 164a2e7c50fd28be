"""The benchmark of slurmctld under ten thousand agents."""
