"""Kills the tasks of jobs on this node that cannot continue after a fault."""
