"""Container images without a daemon: archives in the OCI layout, which podman, skopeo and containerd take.

    image.py   the archive of an image
    layer.py   a folder as a layer

The same files give the same bytes, and so the same digest, whatever the machine, the time or the file system.
"""
