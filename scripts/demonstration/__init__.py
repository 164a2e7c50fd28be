"""The main job on real parts: a bad H100 leaves service, its job goes on elsewhere, Kubernetes knows.

``observe`` reads, ``jobs`` submits and follows, ``story`` is the run under Holdfast, ``baseline`` the same job
without it, ``ettr`` and ``stages`` judge, ``report`` and ``picture`` show.
"""
