"""The faults without a number of NVIDIA's driver: one module for each kind, and their order in tables."""

from __future__ import annotations

from holdfast.faults.gpu import GPU_FAULTS
from holdfast.faults.holdfast_itself import OWN_FAULTS
from holdfast.faults.host import HOST_FAULTS
from holdfast.faults.kernel import KERNEL_FAULTS
from holdfast.faults.network import NETWORK_FAULTS
from holdfast.faults.row import Fault
from holdfast.faults.storage import STORAGE_FAULTS

NODE_FAULTS: tuple[Fault, ...] = (
    *GPU_FAULTS,
    *NETWORK_FAULTS,
    *STORAGE_FAULTS,
    *HOST_FAULTS,
    *KERNEL_FAULTS,
    *OWN_FAULTS,
)
