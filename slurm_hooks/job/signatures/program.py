"""The program itself: code, environment, numbers."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import AT_START, Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "F01",
        Kind.NUMERIC,
        Suspect.IF_REPEATED,
        Retry.ROLLED_BACK,
        r"(?i)found NaN in|NaN found in|Rank \d+: found (?:NaN|Inf)|encountered (?:a )?N"
        r"aN|loss (?:is|was|became) (?:infinite|inf|nan)\b|Floating"
        r"PointError|loss: nan, stopping|non-finite (?:loss|grad|norm)|contains? ("
        r"?:NaN|Inf)\b|Function '\w+' returned nan values|diverged with loss",
    ),
    Signature(
        "F02",
        Kind.NUMERIC,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"Current loss scale already at minimum|Minimum loss scale reached",
    ),
    Signature(
        "U01",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        AT_START + r"(?P<e>TypeError|IndexError|KeyError|AttributeError|ValueError|AssertionError|N"
        r"ameError|ZeroDivisionError|NotImplementedError|UnboundLocalError|RecursionErro"
        r"r|OverflowError|LookupError)\b(?::(?! Caught \w+ in )|$)",
    ),
    Signature(
        "U02",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"^(?!.*(?:NCCL INFO|/(?:\.\w{0,6}rc|\.\w{0,6}profile|bashrc|profile|profile\.d/[\w.-]{1,60}): line \d))"
        r".*?(?:cannot open shared object file|ImportError: .*(?:undefined symbol|GLIBC)|versi"
        r"on `(?:GLIBC|CXXABI)\S* not found|error while loading shared libraries|\bcomma"
        r"nd not found\b|No such file or directory: .*python|Lmod has detected the follo"
        r"wing error|EnvironmentNameNotFound|Could not find conda environment|CondaError"
        r"|module: not found|CommandNotFoundError: Your shell|Failed to find C compiler|CUDA_HOME environment"
        r" variable is not set|Error building extension|CalledProcessError: Command '\['\S*(?:gcc|cc|g\+\+|c\+\+"
        r"|nvcc|ninja)')",
        Weight.POSSIBLE,
    ),
    Signature(
        "U03",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"error: (?:unrecognized arguments|the following arguments are required|argument"
        r" \S+: |ambiguous option|no such option|invalid choice)|^Error: (?:No such opti"
        r"on|Missing (?:option|argument)|Invalid value)|ScannerError|absl\.flags\._excep"
        r"tions|Could not override|MissingConfigException|ConfigAttributeError",
    ),
    Signature(
        "U04",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"shapes cannot be multiplied|The size of tensor a \(\d+\) must match|Expected a"
        r"ll tensors to be on the same device|does not require grad|[Ii]ncompatible shap"
        r"es|shape '\[[\d, -]+\]' is invalid|Sizes of tensors must match|Given groups=\d"
        r"|Expected \d+D .{0,40}input|expected scalar type",
    ),
    Signature(
        "U05",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"pyxis: .*(?:failed|couldn.t|\[ERROR\]|not found|invalid)|spank_pyxis\.so|enroo"
        r"t.*\[ERROR\]|enroot-\w+: failed|nvidia-container-cli: |OCI runtime|Error respo"
        r"nse from daemon|failed to create shim task|(?:FATAL|ERROR): +(?:[Cc]ould not o"
        r"pen image|[Ww]hile |[Uu]nable to |[Cc]ontainer |image )|manifest unknown|tooma"
        r"nyrequests|nvidia-container-runtime",
    ),
    Signature(
        "U06",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"401 Client Error|403 Client Error|GatedRepoError|RepositoryNotFoundError|wandb"
        r": ERROR .*(?:api[_ ]key|permission|auth)|wandb\.errors\.\w*(?:Usage|Auth)|Repo"
        r" id must|Invalid (?:user )?token|api_key not configured",
        Weight.POSSIBLE,
    ),
    Signature(
        "U07",
        Kind.CODE,
        Suspect.ONE_NODE,
        Retry.NEVER,
        r"error: execve\(\): (?!\S*/slurm_script: ).*(?:No such file or directory|Permission denied|Exec forma"
        r"t error)|: can't open file '.*': \[Errno (?:2|13)\]|: can't find '__main__' mo"
        r"dule in |^(?:\d+: )?(?:/\S*/)?(?:ba|da)?sh: (?:.*: No such file or directory$|"
        r"0: cannot open )|slurm_script: line \d+: \S+: No such file or directory",
    ),
    Signature(
        "U08",
        Kind.CODE,
        Suspect.NO,
        Retry.NOT_AT_ALL,
        AT_START + r"(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError|TabError)\b(?:"
        r":|$)|^(?:\d+:\s*)?(?:/\S*/)?python[\d.]*: No module named |(?:slurm_script|\.sh"
        r"|\b(?:ba|da|k|z)?sh): line \d+: syntax error",
    ),
    Signature(
        "F03",
        Kind.NUMERIC,
        Suspect.NO,
        Retry.UNDECIDED,
        r"OVERFLOW! Rank \d+ Skipping step",
        Weight.NONE,
    ),
    Signature(
        "F04",
        Kind.NUMERIC,
        Suspect.IF_REPEATED,
        Retry.ROLLED_BACK,
        r"(?i)^(?!wandb:).*?(?:loss|norm)(?:['\"]: |: | : | = |[:= ])nan\b",
        Weight.POSSIBLE,
    ),
    Signature(
        "U09",
        Kind.CODE,
        Suspect.NO,
        Retry.ONCE,
        AT_START + r"(?!\w*Warning\b)(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception|Failure|Inva"
        r"lid|NotFound)\b(?::|$)|\bUncaught [A-Z]\w*(?:Error|Exception):",
        Weight.FATAL,
        general=True,
    ),
    Signature(
        "U10",
        Kind.CASCADE,
        Suspect.NO,
        Retry.ONCE,
        AT_START + r"(?:[A-Za-z_]\w*\.){0,8}(?:CalledProcessError|ProcessRaisedException|ProcessExi"
        r"tedException(?!.* signal SIG)|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|EOFEr"
        r"ror|ConnectionAbortedError|RemoteError|RayTaskError\S*|RayActorError|W"
        r"orkerCrashedError|EngineDeadError)\b|Engine core initialization failed|WorkerProc init"
        r"ialization failed|EngineCore (?:failed to start|encountered a fatal error)|[Ss]ee (?:the )?(?:roo"
        r"t cause|stack trace|error)s? .{0,20}above|: Caught \w+ in (?:DataLoader worker |pin memory thread|repli"
        r"ca )",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "U11",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.ONCE,
        AT_START + r"KeyboardInterrupt\b(?::|\s*$)|received SIGINT\b",
        Weight.WEAK,
    ),
    Signature(
        "U12",
        Kind.CODE,
        Suspect.NO,
        Retry.ONCE,
        AT_START
        + r"FileNotFoundError\b(?!: Caught \w+ in )|"
        + AT_START
        + r"(?:FileExistsError|NotADirectoryError|IsADirectoryError)\b|HFValidationError|E"
        r"ntryNotFoundError",
    ),
    Signature(
        "U13",
        Kind.CODE,
        Suspect.NO,
        Retry.ONCE,
        r"terminate called after throwing an instance of|Fatal Python error: |double fre"
        r"e or corruption|free\(\): invalid|malloc\(\): |corrupted size vs\. prev_size|m"
        r"unmap_chunk\(\)|Illegal instruction|Floating point exception|stack smashing de"
        r"tected|pure virtual method called",
        Weight.WEAK,
    ),
)
