variable "cluster" {
  description = "Name of the cluster, as in Holdfast's configuration."
  type        = string
  default     = "cluster"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]+$", var.cluster))
    error_message = "cluster is \"${var.cluster}\": use letters, digits, '_', '.' and '-' only."
  }
}

variable "namespace" {
  description = "Namespace of the bridge and the agent. The agent's pods are privileged."
  type        = string
  default     = "holdfast"

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.namespace)) && length(var.namespace) <= 63
    error_message = "namespace is \"${var.namespace}\": use at most 63 small letters, digits and '-', for example \"holdfast\"."
  }
}

variable "create_namespace" {
  description = "Whether to create the namespace. Set it to false for a namespace that exists, such as the one of Slurm."
  type        = bool
  default     = true
}

variable "bridge" {
  description = <<-EOT
    The bridge between Slurm and Kubernetes; null: no bridge.

    - `image`: Slurm's client tools of the cluster's release and `holdfast[bridge]`, by digest.
    - `slurm_conf_configmap`: the ConfigMap that holds slurm.conf.
    - `auth`: `jwt` (the Secret holds a token of `slurm_user`) or `key` (it holds Slurm's own key).
    - `slurm_auth_secret`, `auth_path`: that Secret, and where it is mounted.
    - `slurm_user`, `uid`: the Slurm user that drains nodes.
    - `poll_s`: seconds between two queries of Slurm.
    - `metrics_port`: port of the bridge's metrics, for Prometheus.
    - `cordon`, `taint`: a node drained in Slurm is cordoned and tainted in Kubernetes.
    - `drain_on_cordon`: a node cordoned by a person is drained in Slurm.
  EOT
  type = object({
    image                = string
    slurm_conf_configmap = optional(string, "slurm-conf")
    auth                 = optional(string, "jwt")
    slurm_auth_secret    = optional(string, "slurm-auth")
    auth_path            = optional(string, "/etc/slurm-auth")
    slurm_user           = optional(string, "holdfast")
    uid                  = optional(number, 2000)
    poll_s               = optional(number, 1.5)
    metrics_port         = optional(number, 9646)
    cordon               = optional(bool, true)
    taint                = optional(bool, true)
    drain_on_cordon      = optional(bool, true)
  })
  default = null

  validation {
    condition     = try(var.bridge == null || can(regex("^[\\w.:/-]+@sha256:[0-9a-f]{64}$", var.bridge.image)), false)
    error_message = "bridge.image is \"${try(var.bridge.image, "")}\": give an image with its digest (registry.example.org/name@sha256:… with 64 digits), because a tag can be moved to another image."
  }
  validation {
    condition = var.bridge == null ? true : alltrue([
      for name in [var.bridge.slurm_conf_configmap, var.bridge.slurm_auth_secret] : can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", name))
    ])
    error_message = "bridge.slurm_conf_configmap is \"${try(var.bridge.slurm_conf_configmap, "")}\", bridge.slurm_auth_secret is \"${try(var.bridge.slurm_auth_secret, "")}\": use small letters, digits and '-', as Kubernetes does."
  }
  validation {
    condition     = var.bridge == null ? true : contains(["jwt", "key"], var.bridge.auth)
    error_message = "bridge.auth is \"${try(var.bridge.auth, "")}\": use \"jwt\" or \"key\"."
  }
  validation {
    condition     = var.bridge == null ? true : can(regex("^/[\\w./@+-]*$", var.bridge.auth_path))
    error_message = "bridge.auth_path is \"${try(var.bridge.auth_path, "")}\": use an absolute path without blanks."
  }
  validation {
    condition     = var.bridge == null ? true : can(regex("^[a-z_][a-z0-9_-]*$", var.bridge.slurm_user))
    error_message = "bridge.slurm_user is \"${try(var.bridge.slurm_user, "")}\": use the name of a Slurm user, for example \"holdfast\"."
  }
  validation {
    condition     = var.bridge == null ? true : var.bridge.uid >= 1 && var.bridge.uid <= 999999 && floor(var.bridge.uid) == var.bridge.uid
    error_message = "bridge.uid is ${try(var.bridge.uid, 0)}: use the uid of bridge.slurm_user, a whole number from 1 to 999999 (not root)."
  }
  validation {
    condition     = var.bridge == null ? true : var.bridge.poll_s >= 0.1 && var.bridge.poll_s <= 300
    error_message = "bridge.poll_s is ${try(var.bridge.poll_s, 0)}: use 0.1 to 300 seconds."
  }
  validation {
    condition     = var.bridge == null ? true : var.bridge.metrics_port >= 1 && var.bridge.metrics_port <= 65535 && floor(var.bridge.metrics_port) == var.bridge.metrics_port
    error_message = "bridge.metrics_port is ${try(var.bridge.metrics_port, 0)}: use a port from 1 to 65535."
  }
}

variable "agent" {
  description = <<-EOT
    The agent by a DaemonSet; null: none, the health check of slurm.conf starts the agents.

    - `image`: `sh`, `nsenter` and `setpriv` (Debian's image is enough), by digest.
    - `home`, `config`: where Holdfast and its configuration are, as slurmd sees them.
    - `slurmd`: absolute paths of slurmd's program, as slurmd sees them.
    - `node_selector`: labels of the nodes; empty: all nodes.
    - `max_unavailable`: how many nodes are updated at once, a number or a share.
    - `priority_class`: of the pods.
    - `memory_limit_mib`: memory limit of the agent and its probes.
    - `silent_s`: an agent whose verdict expired so long ago is restarted.
  EOT
  type = object({
    image            = string
    home             = optional(string, "/opt/holdfast")
    config           = optional(string, "/etc/holdfast/holdfast.yaml")
    slurmd           = optional(list(string), ["/usr/sbin/slurmd", "/usr/sbin/slurmd-wlm", "/usr/local/sbin/slurmd", "/opt/slurm/sbin/slurmd"])
    node_selector    = optional(map(string), { "nvidia.com/gpu.present" = "true" })
    max_unavailable  = optional(string, "5%")
    priority_class   = optional(string, "system-node-critical")
    memory_limit_mib = optional(number, 512)
    silent_s         = optional(number, 60)
  })
  default = null

  validation {
    condition     = try(var.agent == null || can(regex("^[\\w.:/-]+@sha256:[0-9a-f]{64}$", var.agent.image)), false)
    error_message = "agent.image is \"${try(var.agent.image, "")}\": give an image with its digest (registry.example.org/name@sha256:… with 64 digits), because its pods are root on every GPU node."
  }
  validation {
    condition     = var.agent == null ? true : alltrue([for path in concat([var.agent.home, var.agent.config], var.agent.slurmd) : can(regex("^/[\\w./@+-]*$", path))])
    error_message = "agent.home, agent.config and agent.slurmd are ${try(jsonencode(concat([var.agent.home, var.agent.config], var.agent.slurmd)), "")}: use absolute paths without blanks and percent signs."
  }
  validation {
    condition     = var.agent == null ? true : length(var.agent.slurmd) > 0
    error_message = "agent.slurmd is empty: name slurmd's program as slurmd sees it, for example [\"/usr/sbin/slurmd\"]."
  }
  validation {
    condition     = var.agent == null ? true : alltrue([for name, value in var.agent.node_selector : can(regex("^[\\w./-]+$", name)) && can(regex("^[\\w.-]*$", value))])
    error_message = "agent.node_selector is ${try(jsonencode(var.agent.node_selector), "")}: use labels of Kubernetes, for example { \"nvidia.com/gpu.present\" = \"true\" }."
  }
  validation {
    condition     = var.agent == null ? true : can(regex("^([1-9][0-9]{0,5}|[1-9][0-9]?%)$", var.agent.max_unavailable))
    error_message = "agent.max_unavailable is \"${try(var.agent.max_unavailable, "")}\": use a number of nodes (\"3\") or a share from \"1%\" to \"99%\"."
  }
  validation {
    condition     = var.agent == null ? true : can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.agent.priority_class))
    error_message = "agent.priority_class is \"${try(var.agent.priority_class, "")}\": use the name of a PriorityClass, for example \"system-node-critical\"."
  }
  validation {
    condition     = var.agent == null ? true : var.agent.memory_limit_mib >= 128 && var.agent.memory_limit_mib <= 99999 && floor(var.agent.memory_limit_mib) == var.agent.memory_limit_mib
    error_message = "agent.memory_limit_mib is ${try(var.agent.memory_limit_mib, 0)}: use a whole number from 128."
  }
  validation {
    condition     = var.agent == null ? true : var.agent.silent_s >= 1 && var.agent.silent_s <= 999999 && floor(var.agent.silent_s) == var.agent.silent_s
    error_message = "agent.silent_s is ${try(var.agent.silent_s, 0)}: use a whole number of seconds, at least 1."
  }
}

variable "kill_switches" {
  description = "Kill switches of the bridge's pod that are on: `bridge` (it reports only), `all` (no action). Empty: none."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.kill_switches, ["bridge", "all"])) == 0
    error_message = "kill_switches has ${jsonencode(setsubtract(var.kill_switches, ["bridge", "all"]))}: use \"bridge\" or \"all\". A check is switched off on the nodes, with modules/soperator or a file /etc/holdfast/off/CHECK."
  }
}

variable "network_policy" {
  description = "Whether a NetworkPolicy limits the connections of the bridge's pod."
  type        = bool
  default     = true
}

variable "network_policy_ports" {
  description = "TCP ports that the bridge may connect to: those of the API server (Service and endpoint), slurmctld and slurmdbd."
  type        = list(number)
  default     = [443, 6443, 6817, 6819]

  validation {
    condition     = length(var.network_policy_ports) > 0 && alltrue([for port in var.network_policy_ports : port >= 1 && port <= 65535 && floor(port) == port])
    error_message = "network_policy_ports is ${jsonencode(var.network_policy_ports)}: use at least one TCP port from 1 to 65535, and include those of the API server and of slurmctld."
  }
}

variable "wait" {
  description = "Whether apply waits until the pods of the bridge are ready, and destroy until the namespace is gone."
  type        = bool
  default     = true
}
