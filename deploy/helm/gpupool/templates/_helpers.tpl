{{- define "gpupool.image" -}}
{{ $registry := .Values.global.imageRegistry | default .Values.image.registry }}
{{- with .Values.image }}{{ if $registry }}{{ $registry }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- define "gpupool.labels" -}}
app.kubernetes.io/name: gpupool
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gpupool.pod" -}}
{{- with concat .root.Values.imagePullSecrets .root.Values.global.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gpupool.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gpupool.meta" -}}
labels:
  {{- include "gpupool.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .part }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gpupool.chosen" -}}
matchLabels: {app.kubernetes.io/component: {{ .part }}, app.kubernetes.io/instance: {{ .root.Release.Name }}}
{{- end }}

{{- define "gpupool.env" -}}
{{- with .Values.apiServer }}
{{- if .host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ .host | quote }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ .port | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "gpupool.budget" -}}
{{- if .values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: gpupool-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "gpupool.labels" .root | nindent 4 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  selector:
    {{- include "gpupool.chosen" . | nindent 4 }}
{{- end }}
{{- end }}
