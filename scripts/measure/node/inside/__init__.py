"""Programs that ``scripts/bench`` runs on a node of a box, with that node's Python."""
