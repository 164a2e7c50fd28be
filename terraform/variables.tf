# The recipe's own variables: pass them on as they are. Attributes that Holdfast does not read are ignored.

variable "slurm_operator_version" {
  description = "Release of Soperator, as in the recipe. Holdfast needs 2.0 or newer."
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

variable "slurm_cluster_name" {
  description = "Name of the cluster in Holdfast's history and messages."
  type        = string
  default     = "soperator"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]+$", var.slurm_cluster_name))
    error_message = "slurm_cluster_name is \"${var.slurm_cluster_name}\": use letters, digits, '_', '.' and '-' only."
  }
}

variable "slurm_nodeset_workers" {
  description = "The worker nodesets, as in the recipe. Read: `name` (`worker` without one) and the number of GPUs in `resource.preset`."
  type = list(object({
    name = optional(string, "worker")
    resource = object({
      platform = string
      preset   = string
    })
    gpu_cluster = optional(object({
      infiniband_fabric = string
    }))
  }))

  validation {
    condition     = length(var.slurm_nodeset_workers) > 0
    error_message = "slurm_nodeset_workers is empty: pass the recipe's variable of the same name."
  }
  validation {
    condition     = length(distinct(var.slurm_nodeset_workers[*].name)) == length(var.slurm_nodeset_workers)
    error_message = "slurm_nodeset_workers has the names ${jsonencode(var.slurm_nodeset_workers[*].name)}: give each nodeset its own name."
  }
  validation {
    condition     = alltrue([for one in var.slurm_nodeset_workers : can(regex("^[0-9]+(gpu|vcpu)-", one.resource.preset))])
    error_message = "slurm_nodeset_workers has the presets ${jsonencode(var.slurm_nodeset_workers[*].resource.preset)}: a preset begins with the number of GPUs or of CPUs, for example \"8gpu-128vcpu-1600gb\"."
  }
}

variable "filesystem_jail_submounts" {
  description = "The shared filesystems below the jail, as in the recipe. Read: `name` and `mount_path`."
  type = list(object({
    name       = string
    mount_path = string
  }))
  default = []

  validation {
    condition     = alltrue([for one in var.filesystem_jail_submounts : can(regex("^/[A-Za-z0-9_./@+-]+$", one.mount_path))])
    error_message = "filesystem_jail_submounts has the paths ${jsonencode(var.filesystem_jail_submounts[*].mount_path)}: use absolute paths without blanks and percent signs, for example \"/mnt/training\"."
  }
  validation {
    condition     = length(distinct([for one in var.filesystem_jail_submounts : trimsuffix(one.mount_path, "/")])) == length(var.filesystem_jail_submounts)
    error_message = "filesystem_jail_submounts puts two filesystems on one mount: ${join(", ", [for one in var.filesystem_jail_submounts : "${one.name} on ${one.mount_path}"])}. Give each its own mount_path."
  }
}

variable "filestore_jail_submounts" {
  description = "The same in recipes before filesystem_jail_submounts. Set one of the two."
  type = list(object({
    name       = string
    mount_path = string
  }))
  default = []

  validation {
    condition     = alltrue([for one in var.filestore_jail_submounts : can(regex("^/[A-Za-z0-9_./@+-]+$", one.mount_path))])
    error_message = "filestore_jail_submounts has the paths ${jsonencode(var.filestore_jail_submounts[*].mount_path)}: use absolute paths without blanks and percent signs, for example \"/mnt/training\"."
  }
  validation {
    condition     = length(distinct([for one in var.filestore_jail_submounts : trimsuffix(one.mount_path, "/")])) == length(var.filestore_jail_submounts)
    error_message = "filestore_jail_submounts puts two filestores on one mount: ${join(", ", [for one in var.filestore_jail_submounts : "${one.name} on ${one.mount_path}"])}. Give each its own mount_path."
  }
}

# tflint-ignore: terraform_unused_declarations # only its check is needed
variable "slurm_health_check_config" {
  description = "The recipe's variable. It must be null: with it, Flux refuses the chart's values (a key given twice)."
  type        = any
  default     = null

  validation {
    condition     = var.slurm_health_check_config == null
    error_message = "slurm_health_check_config is set: the chart then writes healthCheckConfig twice, and Flux refuses it. Remove it; Holdfast's health check runs inside Soperator's own."
  }
}

# Holdfast's own.

variable "nodesets" {
  description = "Names of the nodesets that Holdfast watches. null: all with GPUs. All of them must have the same number of GPUs."
  type        = list(string)
  default     = null
}

variable "mounts" {
  description = "The submounts that jobs need, as jobs see them (`/mnt/training`). null: all submounts."
  type        = list(string)
  default     = null
}

variable "history_path" {
  description = "Folder for the history of nodes and GPUs, as jobs see it, on one of the submounts. null: a folder of each node."
  type        = string
  default     = null
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
    - `auth`: how the pod authenticates to Slurm: `token` (of `slurm_user`), or the cluster's key in a side-car: `munge` (munged) or `slurm` (sackd, for auth/slurm).
    - `slurm_auth_secret`, `auth_path`: the Secret with it in its key `token`, `munge.key` or `slurm.key`, and where it is mounted.
    - `auth_image`: image of the side-car, by digest; empty: `image`, which has both programs.
    - `slurm_user`, `uid`: the Slurm user that drains nodes.
    - `poll_s`: seconds between two queries of Slurm.
    - `metrics_port`: port of the bridge's metrics, for Prometheus.
    - `cordon`, `taint`: a node drained in Slurm is cordoned and tainted in Kubernetes.
    - `drain_on_cordon`: a node cordoned by a person is drained in Slurm.
    - `events`: Events on Nodes for transitions.
    - `nodes`: Slurm's node name => the Kubernetes Node's; empty: Slurm's InstanceId is the Node's name.
    - `node_selector`: a label selector: the bridge ignores all other Nodes.
    - `adapter`: `commands`, `pyslurm` (the image has the cluster's release of it), or `rest` (slurmrestd).
    - `rest_url`: with `adapter` `rest`: where slurmrestd listens. The NetworkPolicy allows its port.
    - `unreadable_polls`: failed reads of Slurm until conditions become Unknown.
    - `connections`: requests to the API server at once.
    - `timeout_s`: limit for one call to the API server.
    - `runs_on`: labels of the Nodes on which its pod may run; empty: any.
    - `memory_limit_mib`: memory limit of the pod.
    - `worker_pods`: protects Slurm's worker pods in `namespace` with these `labels`: `kubectl drain` evicts one only when
      its node is drained and free. `{}`: those of Soperator. Not with Slinky, whose operator protects them. null: none.
    - `extra_configuration`: further keys of the sections bridge, node, paths and slurm of its holdfast.yaml, such as
      `{ bridge = { rules = [{ use = "not-ready", mode = "drain" }] } }`. Not what another attribute sets.
  EOT
  type = object({
    image                = string
    slurm_conf_configmap = optional(string, "slurm-conf")
    auth                 = optional(string, "token")
    slurm_auth_secret    = optional(string, "slurm-auth")
    auth_path            = optional(string, "/etc/slurm-auth")
    auth_image           = optional(string, "")
    slurm_user           = optional(string, "holdfast")
    uid                  = optional(number, 2000)
    poll_s               = optional(number, 2)
    metrics_port         = optional(number, 9646)
    cordon               = optional(bool, true)
    taint                = optional(bool, true)
    drain_on_cordon      = optional(bool, true)
    events               = optional(bool, true)
    nodes                = optional(map(string), {})
    node_selector        = optional(string, "")
    adapter              = optional(string, "commands")
    rest_url             = optional(string, "")
    unreadable_polls     = optional(number, 3)
    connections          = optional(number, 8)
    timeout_s            = optional(number, 10)
    runs_on              = optional(map(string), {})
    memory_limit_mib     = optional(number, 512)
    worker_pods = optional(object({
      namespace = optional(string, "soperator")
      labels    = optional(map(string), { "slurm.nebius.ai/worker" = "true" })
    }))
    extra_configuration = optional(any, {})
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
    condition     = var.bridge == null ? true : contains(["token", "munge", "slurm"], var.bridge.auth)
    error_message = "bridge.auth is \"${try(var.bridge.auth, "")}\": use \"token\", \"munge\" or \"slurm\"."
  }
  validation {
    condition     = try(var.bridge.adapter, "") != "rest" || try(var.bridge.auth, "") == "token"
    error_message = "bridge.adapter is \"rest\" and bridge.auth \"${try(var.bridge.auth, "")}\": use auth \"token\", because slurmrestd takes a token."
  }
  validation {
    condition     = var.bridge == null ? true : can(regex("^([\\w.:/-]+@sha256:[0-9a-f]{64})?$", var.bridge.auth_image))
    error_message = "bridge.auth_image is \"${try(var.bridge.auth_image, "")}\": use an image with its digest, NAME@sha256:…, or leave it empty."
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
  validation {
    condition     = var.bridge == null ? true : contains(["commands", "pyslurm", "rest"], var.bridge.adapter)
    error_message = "bridge.adapter is \"${try(var.bridge.adapter, "")}\": use \"commands\", \"pyslurm\" or \"rest\"."
  }
  validation {
    condition     = var.bridge == null ? true : (var.bridge.adapter == "rest" ? can(regex("^https?://[A-Za-z0-9.-]+:[0-9]{1,5}$", var.bridge.rest_url)) : var.bridge.rest_url == "")
    error_message = "bridge.adapter is \"${try(var.bridge.adapter, "")}\" and bridge.rest_url \"${try(var.bridge.rest_url, "")}\": with \"rest\" give http://HOST:PORT or https://HOST:PORT of slurmrestd, for example \"http://slurmrestd:6820\"; otherwise leave rest_url empty."
  }
  validation {
    condition = var.bridge == null ? true : alltrue([
      for slurm, kube in var.bridge.nodes : can(regex("^[A-Za-z0-9._-]+$", slurm)) && can(regex("^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", kube))
    ]) && length(distinct(values(var.bridge.nodes))) == length(var.bridge.nodes)
    error_message = "bridge.nodes is ${try(jsonencode(var.bridge.nodes), "")}: map each Slurm node to a Kubernetes Node of its own, for example { worker-0 = \"node-a\" }."
  }
  validation {
    condition     = var.bridge == null ? true : can(regex("^[\\w./,=!() -]*$", var.bridge.node_selector))
    error_message = "bridge.node_selector is \"${try(var.bridge.node_selector, "")}\": use a label selector of Kubernetes, for example \"nvidia.com/gpu.present=true\"."
  }
  validation {
    condition     = var.bridge == null ? true : alltrue([for name, value in var.bridge.runs_on : can(regex("^[\\w./-]+$", name)) && can(regex("^[\\w.-]*$", value))])
    error_message = "bridge.runs_on is ${try(jsonencode(var.bridge.runs_on), "")}: use labels of Kubernetes, for example { pool = \"system\" }."
  }
  validation {
    condition = var.bridge == null ? true : alltrue([
      for limits in [[var.bridge.unreadable_polls, 1, 1000], [var.bridge.connections, 1, 64], [var.bridge.timeout_s, 1, 120], [var.bridge.memory_limit_mib, 128, 99999]] :
      limits[0] >= limits[1] && limits[0] <= limits[2] && floor(limits[0]) == limits[0]
    ])
    error_message = "bridge.unreadable_polls is ${try(var.bridge.unreadable_polls, 0)} (1 to 1000), bridge.connections ${try(var.bridge.connections, 0)} (1 to 64), bridge.timeout_s ${try(var.bridge.timeout_s, 0)} (1 to 120), bridge.memory_limit_mib ${try(var.bridge.memory_limit_mib, 0)} (at least 128): use whole numbers in these ranges."
  }
  validation {
    condition = try(var.bridge.worker_pods, null) == null ? true : alltrue(concat(
      [can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.bridge.worker_pods.namespace)), length(var.bridge.worker_pods.labels) > 0],
      [for name, value in var.bridge.worker_pods.labels : can(regex("^[\\w./-]+$", name)) && can(regex("^[\\w.-]*$", value))],
    ))
    error_message = "bridge.worker_pods is ${try(jsonencode(var.bridge.worker_pods), "")}: give the namespace of slurmd's pods and at least one of their labels (kubectl get pods --show-labels)."
  }
  validation {
    condition     = var.bridge == null ? true : alltrue([for section in try(values(var.bridge.extra_configuration), [null]) : can(keys(section))])
    error_message = "bridge.extra_configuration is ${try(jsonencode(var.bridge.extra_configuration), "")}: give sections with their keys, for example { bridge = { show_planned = true } }."
  }
  validation {
    condition = can(var.bridge.extra_configuration.bridge.workloads.namespaces) ? try(alltrue(concat(
      [length(distinct(var.bridge.extra_configuration.bridge.workloads.namespaces)) == length(var.bridge.extra_configuration.bridge.workloads.namespaces)],
      [for name in var.bridge.extra_configuration.bridge.workloads.namespaces : can(regex("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", name))],
    )), false) : true
    error_message = "bridge.workloads.namespaces in bridge.extra_configuration is ${try(jsonencode(var.bridge.extra_configuration.bridge.workloads.namespaces), "")}: give a list of namespaces, each once, for example [\"team-a\"]."
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

variable "monitoring" {
  description = <<-EOT
    Objects for Prometheus' operator and Grafana; null: none. The operator's definitions must exist.

    - `labels`: by which your Prometheus finds its objects, for example `{ release = "kube-prometheus-stack" }`.
    - `interval_s`: seconds between two scrapes.
    - `drained_percent`: alert when more nodes than that are drained.
    - `agent_pods`: the pods in which slurmd runs: `namespace`, `labels`, and the agents' `port`. The agents need
      `metrics_port` and `metrics_host: 0.0.0.0` in their configuration. null: no PodMonitor for agents.
    - `dashboards`: ConfigMaps with dashboards for the side-car of Grafana's chart.
  EOT
  type = object({
    labels          = optional(map(string), {})
    interval_s      = optional(number, 30)
    drained_percent = optional(number, 10)
    agent_pods = optional(object({
      namespace = string
      labels    = map(string)
      port      = optional(number, 9645)
    }))
    dashboards = optional(bool, false)
  })
  default = null

  validation {
    condition     = var.monitoring == null ? true : alltrue([for name, value in merge(var.monitoring.labels, try(var.monitoring.agent_pods.labels, {})) : can(regex("^[\\w./-]+$", name)) && can(regex("^[\\w.-]*$", value))])
    error_message = "monitoring.labels and monitoring.agent_pods.labels are ${try(jsonencode([var.monitoring.labels, try(var.monitoring.agent_pods.labels, {})]), "")}: use labels of Kubernetes, for example { release = \"kube-prometheus-stack\" }."
  }
  validation {
    condition     = var.monitoring == null ? true : var.monitoring.interval_s >= 1 && var.monitoring.interval_s <= 999 && floor(var.monitoring.interval_s) == var.monitoring.interval_s
    error_message = "monitoring.interval_s is ${try(var.monitoring.interval_s, 0)}: use 1 to 999 seconds."
  }
  validation {
    condition     = var.monitoring == null ? true : var.monitoring.drained_percent >= 1 && var.monitoring.drained_percent <= 99 && floor(var.monitoring.drained_percent) == var.monitoring.drained_percent
    error_message = "monitoring.drained_percent is ${try(var.monitoring.drained_percent, 0)}: use a whole number from 1 to 99."
  }
  validation {
    condition = try(var.monitoring.agent_pods, null) == null ? true : alltrue([
      can(regex("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", var.monitoring.agent_pods.namespace)),
      length(var.monitoring.agent_pods.labels) > 0,
      var.monitoring.agent_pods.port >= 1 && var.monitoring.agent_pods.port <= 65535 && floor(var.monitoring.agent_pods.port) == var.monitoring.agent_pods.port,
    ])
    error_message = "monitoring.agent_pods is ${try(jsonencode(var.monitoring.agent_pods), "")}: give the namespace of slurmd's pods, at least one of their labels (kubectl get pods --show-labels), and a port from 1 to 65535."
  }
}

variable "kill_switches" {
  description = "Kill switches that are on: names of checks (they do not run on any node), `bridge` (it reports only) or `all` (no action). Empty: none."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.kill_switches : can(regex("^[a-z0-9_]+$", name))])
    error_message = "kill_switches is ${jsonencode(var.kill_switches)}: use names of checks (docs/reference/checks.md), \"bridge\" or \"all\"."
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
  description = "Whether the first apply waits until the pods of the bridge are ready, and destroy until the namespace is gone."
  type        = bool
  default     = true
}
