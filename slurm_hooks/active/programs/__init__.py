"""Programs that run a load on a node for an active check. Each is a process of its own, because it may
hang in uninterruptible sleep, and prints one JSON object per line as soon as it is known.

``gpu`` and ``all_reduce`` need torch but no module of Holdfast: a Python with torch runs them as
files. ``storage`` and ``host`` need Holdfast and the standard library.
"""
