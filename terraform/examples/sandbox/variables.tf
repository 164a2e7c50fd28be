variable "kubeconfig" {
  description = "Path of the sandbox's kubeconfig. `scripts/terraform --box` sets it."
  type        = string

  validation {
    condition     = fileexists(var.kubeconfig)
    error_message = "kubeconfig is \"${var.kubeconfig}\", and there is no such file: start the sandbox with `scripts/sandbox up`, and run this with `scripts/terraform --box default`."
  }
}

variable "bridge_image" {
  description = "Image of the bridge, by digest. `scripts/terraform --box` sets both images in a box with pods; in another no pod starts."
  type        = string
  default     = "registry.example.org/holdfast@sha256:0000000000000000000000000000000000000000000000000000000000000000"
}

variable "agent_image" {
  description = "Image of the agent's pod, by digest: any Debian."
  type        = string
  default     = "registry.example.org/debian@sha256:0000000000000000000000000000000000000000000000000000000000000000"
}

variable "checks" {
  description = "Modes and limits of checks, as in the root module."
  type        = any
  default     = {}
}

variable "kill_switches" {
  description = "Kill switches that are on, as in the root module."
  type        = set(string)
  default     = []
}

variable "slurm_conf" {
  description = "Text of slurm.conf, for the bridge. `scripts/terraform --box` sets it in a box with pods. Empty: no pod is waited for."
  type        = string
  default     = ""
}

variable "slurm_token" {
  description = "Token of the bridge's Slurm user (`scontrol token`). `scripts/terraform --box` sets it in a box with pods."
  type        = string
  default     = ""
  sensitive   = true
}

variable "slurm_auth" {
  description = "How the bridge's pod authenticates to Slurm: `token`, or `munge` or `slurm` with the cluster's key in a side-car."
  type        = string
  default     = "token"
}

variable "slurm_key" {
  description = "The cluster's key in base64, for `slurm_auth` `munge` or `slurm`. `scripts/terraform --box` sets it in a box with pods."
  type        = string
  default     = ""
  sensitive   = true
}

variable "poll_s" {
  description = "Seconds between two queries of Slurm by the bridge."
  type        = number
  default     = 2
}
