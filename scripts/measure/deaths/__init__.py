"""Ways for a job under ``holdfast run`` to die, each caused in a box and compared with what must follow."""
