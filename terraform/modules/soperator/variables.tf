variable "cluster" {
  description = "Name of the cluster, as in Holdfast's configuration."
  type        = string
  default     = "cluster"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]+$", var.cluster))
    error_message = "cluster is \"${var.cluster}\": use letters, digits, '_', '.' and '-' only."
  }
}

variable "gpus" {
  description = "GPUs of each node. 0: nodes without GPUs."
  type        = number
  default     = 8

  validation {
    condition     = var.gpus >= 0 && var.gpus <= 64 && floor(var.gpus) == var.gpus
    error_message = "gpus is ${var.gpus}: use a whole number from 0 to 64."
  }
}

variable "nvswitches" {
  description = "NVSwitches that each node must have; 0 where the hypervisor has them. null: 4 with 8 GPUs (HGX H100), else none."
  type        = number
  default     = null

  validation {
    condition     = var.nvswitches == null ? true : var.nvswitches >= 0 && var.nvswitches <= 64 && floor(var.nvswitches) == var.nvswitches
    error_message = "nvswitches is ${coalesce(var.nvswitches, 0)}: use a whole number from 0 to 64, or null."
  }
}

variable "mounts" {
  description = "Mount points that jobs need, as slurmd sees them."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for path in var.mounts : can(regex("^/[A-Za-z0-9_./@+-]*$", path))])
    error_message = "mounts is ${jsonencode(var.mounts)}: use absolute paths without blanks and percent signs."
  }
  validation {
    condition     = length(distinct(var.mounts)) == length(var.mounts)
    error_message = "mounts is ${jsonencode(var.mounts)}: name each mount point once."
  }
}

variable "history" {
  description = "Folder for the history of nodes and GPUs, on a filesystem that all nodes share. null: a folder of each node."
  type        = string
  default     = null

  validation {
    condition     = var.history == null ? true : can(regex("^/[A-Za-z0-9_./@+-]+$", var.history))
    error_message = "history is \"${coalesce(var.history, "null")}\": use an absolute path without blanks, or null."
  }
}

variable "checks" {
  description = "Name of a check => its mode (`off`, `observe`, `comment`, `drain`) and limits. A check that is not named observes: it changes nothing. Names and limits: docs/reference/checks.md."
  type = map(object({
    mode   = optional(string, "observe")
    limits = optional(map(string), {})
  }))
  default = {}

  validation {
    condition     = alltrue([for check in var.checks : contains(["off", "observe", "comment", "drain"], check.mode)])
    error_message = "checks has ${jsonencode({ for name, check in var.checks : name => check.mode if !contains(["off", "observe", "comment", "drain"], check.mode) })}: use the mode \"off\", \"observe\", \"comment\" or \"drain\"."
  }
}

variable "extra_configuration" {
  description = "Further sections of holdfast.yaml, such as `{ agent = { metrics_port = 9645 }, node = { budget = { max_nodes = 4 } } }`. Not what another input sets. Keys: docs/reference/configuration.md."
  type        = any
  default     = {}

  validation {
    condition     = can(keys(var.extra_configuration)) && alltrue([for section in try(values(var.extra_configuration), []) : can(keys(section))])
    error_message = "extra_configuration is ${jsonencode(var.extra_configuration)}: give sections with their keys, for example { agent = { metrics_port = 9645 } }."
  }
}

variable "kill_switches" {
  description = "Kill switches that are on, on every node: names of checks (they do not run), or `all` (no action). Empty: none."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.kill_switches : can(regex("^[a-z0-9_]+$", name))])
    error_message = "kill_switches is ${jsonencode(var.kill_switches)}: use names of checks (docs/reference/checks.md) or \"all\"."
  }
}

# tflint-ignore: terraform_unused_declarations # only its checks are needed
variable "slurm_operator_version" {
  description = "Your release of Soperator, as in the recipe."
  type        = string

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+", var.slurm_operator_version))
    error_message = "slurm_operator_version is \"${var.slurm_operator_version}\": give a release of Soperator, for example \"4.1.11\"."
  }
  validation {
    condition     = try(tonumber(regex("^[0-9]+", var.slurm_operator_version)) >= 2, true)
    error_message = "slurm_operator_version is \"${var.slurm_operator_version}\": its charts have no slurmScripts values and would ignore Holdfast's without a message. Upgrade Soperator to 2.0 or newer first."
  }
}
