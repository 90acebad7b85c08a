{{- /*
Every object comes from files/, which `sidecar export` writes: read as data and changed by fields, never run as a template, so that the
braces of rules and messages stay. Nothing but switches, names, namespaces and labels is spelled here.
*/ -}}

{{- define "llm.object" -}}
{{- $labels := dict "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/instance" .root.Release.Name "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (replace "+" "_" .root.Chart.Version)) -}}
{{- with .namespace }}{{ $_ := set $.object.metadata "namespace" . }}{{ end -}}
{{- $_ := set .object.metadata "labels" (mergeOverwrite $labels (.object.metadata.labels | default dict) (.labels | default dict)) -}}
---
{{ toYaml .object }}
{{ end }}

{{- /* The text of one of files/. Git stores them as links, which some tools do not follow. */ -}}
{{- define "llm.file" -}}
{{- $text := .root.Files.Get (printf "files/%s" .name) -}}
{{- if not $text -}}
{{- fail (printf "files/%s is empty or absent: the links of deploy/chart were not followed. `sidecar export chart --out=DIR` and `helm package deploy/chart` write the chart whole. Of a chart for a ruler that takes files alone (--ruler), rules.as is ConfigMap or none" .name) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{- /* The namespaces of the engines, as JSON of {"all": ...}: where an object stands once for each of them. */ -}}
{{- define "llm.engines" -}}
{{- $named := .Values.engines.namespaces -}}
{{- if or (empty $named) (has "*" $named) -}}
{{- dict "all" (list .Release.Namespace) | toJson -}}
{{- else -}}
{{- dict "all" (uniq $named) | toJson -}}
{{- end -}}
{{- end -}}
