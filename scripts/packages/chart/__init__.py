"""The Helm chart, generated from the templates of ``holdfast render``."""
