{{/* A value as `holdfast render --set` takes it. A number keeps its digits: Helm would print 1000000 as 1e+06. */}}
{{- define "holdfast.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end }}

{{/* A map as NAME=VALUE,…, in the order of its names. */}}
{{- define "holdfast.pairs" -}}
{{- $pairs := list -}}
{{- range $name, $value := . }}{{ $pairs = append $pairs (printf "%s=%s" $name $value) }}{{ end -}}
{{- join "," $pairs -}}
{{- end }}

{{/* Ends with the remedy when a value does not match its pattern. */}}
{{- define "holdfast.check" -}}
{{- if not (regexMatch .pattern .given) -}}
{{- if and .missing (eq .given "") }}{{ fail .missing }}{{ end -}}
{{- fail (printf .refusal .given) -}}
{{- end -}}
{{- end }}

{{/* What one value excludes in another, as `holdfast render deployment` refuses it. */}}
{{- define "holdfast.together" -}}
{{- with .Values.bridge -}}
{{- if .enabled -}}
{{- if ne (eq .adapter "rest") (ne .rest_url "") }}{{ fail "bridge: adapter=rest and rest_url belong together" }}{{ end -}}
{{- if and (eq .adapter "rest") (ne .auth "token") -}}
{{- fail "bridge: adapter=rest needs auth=token: slurmrestd takes a token" -}}
{{- end -}}
{{- if eq (include "holdfast.text" .metrics_port) "9647" -}}
{{- fail "bridge: metrics_port: 9647 is that of the status page" -}}
{{- end -}}
{{- $nodes := values .nodes -}}
{{- if ne (len $nodes) (len (uniq $nodes)) -}}
{{- fail "bridge: nodes: a Kubernetes Node is given twice; each Slurm node needs one of its own" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What bridge.extra_configuration may not contain: what nothing reads, and what another value writes. */}}
{{- define "holdfast.extra" -}}
{{- $known := include "holdfast.known" . | fromJson -}}
{{- range $name, $section := .Values.bridge.extra_configuration -}}
{{- if not (hasKey $known.keys $name) -}}
{{- $read := keys $known.keys | sortAlpha | join ", " -}}
{{- fail (printf "bridge.extra_configuration: %s: nothing here reads this section; use %s" $name $read) -}}
{{- end -}}
{{- range $key, $_ := $section -}}
{{- $full := printf "%s.%s" $name $key -}}
{{- if hasKey $known.taken $full -}}
{{- $by := index $known.taken $full -}}
{{- $remedy := ternary (printf "use bridge.%s" $by) "leave it out" (ne $by "") -}}
{{- fail (printf "bridge.extra_configuration: %s is written by this chart: %s" $full $remedy) -}}
{{- end -}}
{{- if not (has $key (index $known.keys $name)) -}}
{{- fail (printf "bridge.extra_configuration: %s: no such key; holdfast.yaml has %s" $full (join ", " (index $known.keys $name))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The namespaces whose workloads the bridge restarts, as a JSON list: their rights are made from these names. */}}
{{- define "holdfast.workloads" -}}
{{- $workloads := index .Values.bridge.extra_configuration "bridge" | default dict | dig "workloads" dict -}}
{{- $names := ternary (get $workloads "namespaces") (list) (and (kindIs "map" $workloads) (hasKey $workloads "namespaces")) -}}
{{- $right := kindIs "slice" $names -}}
{{- if $right }}{{ if ne (len $names) (len (uniq $names)) }}{{ $right = false }}{{ end }}{{ end -}}
{{- if $right }}{{ range $names }}{{ if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" (toString .)) }}{{ $right = false }}{{ end }}{{ end }}{{ end -}}
{{- if not $right -}}
{{- fail (printf "bridge.extra_configuration: bridge.workloads.namespaces must be a list of namespaces, each once, such as [\"team-a\"], got %s" (toJson $names)) -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{/* Lines that follow the last one of the sections slurm and bridge in holdfast.yaml. */}}
{{- define "holdfast.slurm_more" -}}
{{- range $key, $value := index .Values.bridge.extra_configuration "slurm" }}{{ printf "\n      %s: %s" $key (toJson $value) }}{{ end -}}
{{- end }}

{{- define "holdfast.more" -}}
{{- range $key, $value := index .Values.bridge.extra_configuration "bridge" }}{{ printf "\n      %s: %s" $key (toJson $value) }}{{ end -}}
{{- range $name, $section := omit .Values.bridge.extra_configuration "slurm" "bridge" }}{{ printf "\n    %s: %s" $name (toJson $section) }}{{ end -}}
{{- end }}

{{/* Ports of the NetworkPolicy's egress: DNS, those in network_policy.ports, and slurmrestd's. */}}
{{- define "holdfast.ports" -}}
{{- $ports := list (dict "port" 53 "protocol" "UDP") (dict "port" 53 "protocol" "TCP") -}}
{{- $tcp := list -}}
{{- range .Values.network_policy.ports }}{{ $tcp = append $tcp (int .) }}{{ end -}}
{{- with regexFind "[0-9]+$" .Values.bridge.rest_url }}{{ $tcp = append $tcp (int .) | uniq }}{{ end -}}
{{- range $tcp }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end -}}
{{- toJson $ports -}}
{{- end }}

{{- define "holdfast.switches" -}}
{{- $switches := dict -}}
{{- range .Values.kill_switches }}{{ $_ := set $switches . "" }}{{ end -}}
{{- toJson $switches -}}
{{- end }}

{{/* Another script makes new pods. */}}
{{- define "holdfast.agent.digest" -}}
{{- printf "%s\n" (include "holdfast.agent.sh" .) | sha256sum | trunc 12 -}}
{{- end }}
