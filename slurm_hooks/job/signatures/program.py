"""The program itself: code, environment, numbers."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "U01",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"^(?:\d+:\s*)?(?:\[[^\]]*\]:?\s*)?(?P<e>TypeError|IndexError|KeyError|Attri"
        r"buteError|ValueError|AssertionError|NameError|ZeroDivisionError|NotImpleme"
        r"ntedError|UnboundLocalError)\b(?::|$)",
    ),
    Signature(
        "U02",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"ImportError: .*(?:cannot open shared object|undefined "
        r"symbol|GLIBC)|\bcommand not found\b|No such file or directory: .*python",
    ),
    Signature(
        "U03",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"error: (?:unrecognized arguments|the following arguments are required|argu"
        r"ment \S+: (?:invalid|expected))",
    ),
    Signature(
        "U04",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"mat1 and mat2 shapes cannot be multiplied|The size of tensor a \(\d+\) mus"
        r"t match|Expected all tensors to be on the same device|element 0 of tensors"
        r" does not require grad",
    ),
    Signature(
        "U05",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"pyxis: .*(?:failed to import|couldn.t start container|container start fail"
        r"ed)|enroot.*\[ERROR\]|nvidia-container-cli: .*error",
    ),
    Signature(
        "U06",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"401 Client Error|403 Client Error|GatedRepoError|wandb: ERROR .*(?:api[_ ]"
        r"key|permission|auth)",
    ),
    Signature(
        "U07",
        Kind.CODE,
        Suspect.ONE_NODE,
        Retry.NEVER,
        r"error: execve\(\): .*(?:No such file or directory|Permission denied|Exec form"
        r"at error)|: can't open file '.*': \[Errno (?:2|13)\]|: can't find '__main__' mo"
        r"dule in |^(?:\d+: )?(?:/\S*/)?(?:ba|da)?sh: (?:.*: No such file or directory$|0"
        r": cannot open )",
    ),
    Signature(
        "U08",
        Kind.CODE,
        Suspect.NO,
        Retry.NOT_AT_ALL,
        r"^(?:\d+:\s*)?(?:\[[^\]]*\]:?\s*)?(?:ModuleNotFoundError|ImportError|SyntaxError"
        r"|IndentationError|TabError)\b(?::|$)|^(?:\d+:\s*)?(?:/\S*/)?python[\d.]*: No module named ",
    ),
    Signature(
        "F01",
        Kind.NUMERIC,
        Suspect.IF_REPEATED,
        Retry.ROLLED_BACK,
        r"(?i)(?:\bfound NaN in\b|NaN found in input tensor|Rank \d+: found (?:NaN|I"
        r"nf)|encountered NaN|(?:loss|lm loss|grad[_ ]?norm)\s*[:=]\s*(?:nan|[+-]?in"
        r"f)\b|non-finite)",
    ),
    Signature(
        "F02",
        Kind.NUMERIC,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"Current loss scale already at minimum - cannot decrease scale anymore",
    ),
    Signature(
        "F03",
        Kind.NUMERIC,
        Suspect.NO,
        Retry.UNDECIDED,
        r"OVERFLOW! Rank \d+ Skipping step|number of skipped iterations:\s+[1-9]\d*",
    ),
)
