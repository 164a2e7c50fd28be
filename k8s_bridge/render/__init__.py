"""The bridge's documents for ``holdfast render``."""
