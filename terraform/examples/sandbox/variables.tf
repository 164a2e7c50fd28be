variable "kubeconfig" {
  description = "Path of the sandbox's kubeconfig."
  type        = string

  validation {
    condition     = fileexists(var.kubeconfig)
    error_message = "kubeconfig is \"${var.kubeconfig}\", and there is no such file: start the sandbox with `scripts/sandbox up` and give the path that `scripts/sandbox kubeconfig` prints."
  }
}

variable "image" {
  description = "Image of the bridge and the agent, by digest. The sandbox starts no pod."
  type        = string
  default     = "registry.example.org/holdfast@sha256:0000000000000000000000000000000000000000000000000000000000000000"
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
