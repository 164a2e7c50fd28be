"""Helm and kubeconform, with which the tests try the chart."""

from packages.helm.programs import Tool, find

__all__ = ["Tool", "find"]
