"""Finds nodes that lost power or network within seconds, by heartbeats among the agents (decision 039)."""
