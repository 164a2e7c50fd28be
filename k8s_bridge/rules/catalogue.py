"""The built-in rules: signals of Nebius, Node Problem Detector, NVSentinel and clouds, and Kubernetes' own.

Names and polarity as their sources document them. Each starts in mode observe (rule 5). Conditions that show
Slurm's own state are in no rule: a mirror is never a source.
"""

from __future__ import annotations

from collections.abc import Mapping

from k8s_bridge.rules.rule import GONE, JobsMode, Rule

_NPD = "Node Problem Detector"
_NVSENTINEL = "NVSentinel"
_EKS = "EKS node monitoring agent, Karpenter"
_FALSE = ("False", "Unknown")
_LEAVE = JobsMode.LEAVE

_ROWS = (
    Rule(
        name="not-ready", condition="Ready", bad=_FALSE, hold_s=300, clear_s=120,
        about="the kubelet does not report, or reports an error",
    ),
    Rule(name=GONE, hold_s=120, clear_s=0, about="deleted, or left `bridge.node_selector`, while the bridge ran"),
    Rule(
        name="out-of-service", taint="node.kubernetes.io/out-of-service", clear_s=60,
        about="a person or controller declares the machine lost",
    ),
    Rule(name="nebius-gpu-error", condition="NebiusGPUError", hold_s=10, clear_s=300, about="Nebius"),
    Rule(
        name="nebius-boot-disk-io-error", condition="NebiusBootDiskIOError", hold_s=30, clear_s=300,
        about="Nebius",
    ),
    Rule(
        name="nebius-maintenance", condition="NebiusMaintenanceScheduled", clear_s=60,
        jobs=_LEAVE, reserve_s=3600,
        about="Nebius: the machine is going to be stopped; the condition's message has the time",
    ),
    Rule(name="npd-kernel-deadlock", condition="KernelDeadlock", hold_s=60, clear_s=300, about=_NPD),
    Rule(
        name="npd-readonly-filesystem", condition="ReadonlyFilesystem", hold_s=30, clear_s=300, about=_NPD
    ),
    Rule(name="npd-xfs-shutdown", condition="XfsShutdown", hold_s=30, clear_s=300, about=_NPD),
    Rule(
        name="npd-cper-error", condition="CperHardwareErrorFatal", hold_s=30, clear_s=300, about=_NPD
    ),
    Rule(
        name="npd-frequent-kubelet-restart", condition="FrequentKubeletRestart", hold_s=600, clear_s=600,
        about=_NPD,
    ),
    Rule(
        name="npd-frequent-containerd-restart", condition="FrequentContainerdRestart", hold_s=600,
        clear_s=600, about=_NPD,
    ),
    Rule(name="nvsentinel-gpu-memory", condition="GpuMemWatch", hold_s=10, clear_s=300, about=_NVSENTINEL),
    Rule(name="nvsentinel-nvlink", condition="GpuNvlinkWatch", hold_s=10, clear_s=300, about=_NVSENTINEL),
    Rule(name="nvsentinel-xid", condition="SysLogsXIDError", hold_s=10, clear_s=300, about=_NVSENTINEL),
    Rule(
        name="nvsentinel-dcgm", condition="GpuDcgmConnectivityFailure", hold_s=120, clear_s=300,
        about=_NVSENTINEL,
    ),
    Rule(
        name="nvsentinel-maintenance", condition="CSPMaintenance", clear_s=60, jobs=_LEAVE,
        about=f"{_NVSENTINEL}: the cloud is going to stop the machine",
    ),
    Rule(
        name="accelerated-hardware", condition="AcceleratedHardwareReady", bad=_FALSE, hold_s=600,
        clear_s=300, about=_EKS,
    ),
    Rule(name="kernel-ready", condition="KernelReady", bad=_FALSE, hold_s=600, clear_s=300, about=_EKS),
    Rule(
        name="networking-ready", condition="NetworkingReady", bad=_FALSE, hold_s=600, clear_s=300,
        about=_EKS,
    ),
    Rule(name="storage-ready", condition="StorageReady", bad=_FALSE, hold_s=600, clear_s=300, about=_EKS),
    Rule(
        name="aks-vm-event", condition="VMEventScheduled", clear_s=60, jobs=_LEAVE,
        about="AKS: preemption, redeploy",
    ),
    Rule(
        name="spot-aws", taint="aws-node-termination-handler/spot-itn", clear_s=60,
        jobs=_LEAVE, notice_s=120,
        about="AWS: a spot instance ends in 2 minutes",
    ),
    Rule(
        name="spot-gcp", taint="cloud.google.com/impending-node-termination", clear_s=60,
        jobs=_LEAVE, notice_s=30,
        about="GKE: the machine is going to be stopped",
    ),
    Rule(
        name="karpenter-disrupted", taint="karpenter.sh/disrupted", clear_s=60, jobs=_LEAVE,
        about="Karpenter",
    ),
    Rule(
        name="autoscaler-removes", taint="ToBeDeletedByClusterAutoscaler", clear_s=60,
        jobs=_LEAVE,
        about="Cluster Autoscaler is going to remove the machine",
    ),
    Rule(
        name="worker-pod-disrupted", pod="DisruptionTarget", clear_s=60, jobs=_LEAVE,
        about="Kubernetes ends the worker pod: taint, preemption, the kubelet, eviction",
    ),
)  # fmt: skip

BUILT_IN: Mapping[str, Rule] = {rule.name: rule for rule in _ROWS}

MIRRORS = (
    "HoldfastSlurm",
    "SlurmNode",
    "SoperatorChecks",
    "HardwareIssuesSuspected",
    "SlurmCordon",
    "SlurmDrain",
    "SlurmRunning",
    "SlurmNotResponding",
)
"""Starts of the types of conditions that show Slurm's own state: Holdfast's, Soperator's and SUNK's."""
