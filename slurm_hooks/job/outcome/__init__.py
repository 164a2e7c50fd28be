"""What ended an attempt: the step, the nodes, the agents' incidents, the work that is lost."""
