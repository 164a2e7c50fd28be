"""The programs that load a node for an active check. Each runs as a process of its own, may hang
beyond all signals, and prints one JSON object a line as soon as it knows it.

``gpu`` and ``all_reduce`` need torch and nothing of ours: they are run, as files, by whatever Python
has one. ``storage`` and ``host`` need the standard library and Holdfast.
"""
