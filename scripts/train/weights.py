"""Prints the SHA-256 of every tensor's bytes in a model file, in the order of the names.

The bytes of the file cannot be compared: two archives of equal tensors may differ.

Example: python3 weights.py /mnt/training/models/trained_model.pt
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import torch


def digest(state: dict[str, Any]) -> str:
    total = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(bytes(tensor.flatten().view(torch.uint8).tolist()))
    return total.hexdigest()


def main() -> int:
    for path in sys.argv[1:]:
        print(digest(torch.load(path, map_location="cpu", weights_only=True)), path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
