"""Real pods in a box: kubelet, containerd and kube-proxy on every machine, images made without a daemon.

    prepare(cache, layers, release, say)   programs, the machines' root and the images: built once
    settings.write(folder, plane, shape)   configuration files of all machines of a box

What runs inside a box is ``testbed.inside.machine``.
"""

from testbed.pods.assets import NONE, Assets, is_built, prepare

__all__ = ["NONE", "Assets", "is_built", "prepare"]
