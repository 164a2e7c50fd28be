"""The kinds of workloads whose pods are restarted together, and the labels by which their owners ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from k8s_bridge.names import PREFIX

OPT_IN = PREFIX + "cascading-recovery"
"""Label of a workload: with the value ``true``, its pods are restarted together."""
OPT_IN_KCOVER = "kcover.io/cascading-recovery"
"""The label of kcover with the same meaning. It counts unless ``OPT_IN`` has another value."""
OPT_IN_LABELS = (OPT_IN, OPT_IN_KCOVER)

RESTART = PREFIX + "restart"
"""Annotation of a workload: JSON, the last restart of its pods (``record.RestartRecord``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of workload.

    ``pod_label``: the label with the workload's name that its controller gives to its pods, and to its Jobs
    if it has some (``has_jobs``). ``needs_names``: its controller cannot create a pod again while a failed
    one of that name exists. ``finished``: types of the conditions that end it.
    """

    name: str
    group: str
    version: str
    resource: str
    pod_label: str
    finished: frozenset[str]
    has_jobs: bool = False
    needs_names: bool = False

    def path(self, namespace: str, name: str = "") -> str:
        """Of the API server's collection, or of one object."""
        base = f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.resource}"
        return f"{base}/{name}" if name else base

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


JOB = Kind(
    name="Job",
    group="batch",
    version="v1",
    resource="jobs",
    pod_label="batch.kubernetes.io/job-name",
    finished=frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"}),
)
JOB_SET = Kind(
    name="JobSet",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    resource="jobsets",
    pod_label="jobset.sigs.k8s.io/jobset-name",
    finished=frozenset({"Completed", "Failed"}),
    has_jobs=True,
)
PYTORCH_JOB = Kind(
    name="PyTorchJob",
    group="kubeflow.org",
    version="v1",
    resource="pytorchjobs",
    pod_label="training.kubeflow.org/job-name",
    finished=frozenset({"Succeeded", "Failed"}),
    needs_names=True,
)
KINDS = (JOB, JOB_SET, PYTORCH_JOB)
