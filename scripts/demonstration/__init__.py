"""The demo: a faulty H100 is drained, its job continues on other nodes, Kubernetes is updated.

``observe`` reads the cluster, ``jobs`` submits and follows jobs, ``scenario`` is the run under
Holdfast, ``baseline`` the same job without it, ``ettr`` and ``stages`` evaluate, ``report`` and
``picture`` present the result.
"""
