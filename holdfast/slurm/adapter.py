"""Which adapter to Slurm the configuration asks for."""

from __future__ import annotations

from holdfast.config.schema import SlurmAdapter, SlurmConfig
from holdfast.slurm.cli import SlurmCli


def open_slurm(config: SlurmConfig, token_file: str = "") -> SlurmCli:
    """Slurm for the bridge and the commands. ``token_file``: a JSON Web Token, see ``SlurmCli``.

    Raises ``ConfigError`` where pyslurm is configured and missing, or not built for the cluster's release,
    and where slurmrestd is configured without a token.
    """
    if config.adapter is SlurmAdapter.COMMANDS:
        return SlurmCli(config.timeout_s, config.bin, token_file)
    if config.adapter is SlurmAdapter.REST:
        from holdfast.slurm.rest_client import SlurmRest  # noqa: PLC0415 - only where configured

        rest = SlurmRest(config.timeout_s, config.rest_url, token_file, config.bin)
        rest.check()
        return rest
    from holdfast.slurm.pyslurm.client import SlurmPyslurm  # noqa: PLC0415 - only where configured

    slurm = SlurmPyslurm(config.timeout_s, config.bin, token_file)
    slurm.check()
    return slurm
