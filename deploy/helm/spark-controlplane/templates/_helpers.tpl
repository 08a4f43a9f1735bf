{{- /* Names and labels. Every resource begins with the name of the release. */ -}}
{{- define "labels" -}}
app.kubernetes.io/name: spark-controlplane
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of a resource and of its pods: dict "root" . "component" NAME. */ -}}
{{- define "componentLabels" -}}
{{ include "labels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "chartLabels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "serverUrls" -}}
{{- if .Values.postgresql.enabled -}}
http://{{ .Release.Name }}-0.{{ .Release.Name }}-servers:8420,http://{{ .Release.Name }}-1.{{ .Release.Name }}-servers:8420
{{- else -}}
http://{{ .Release.Name }}:8420
{{- end }}
{{- end }}

{{- define "podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "dnsPorts" -}}
- ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
{{- end }}

{{- /* Everything but the addresses where clouds serve the credentials of the node. */ -}}
{{- define "egress" -}}
- to:
    - ipBlock: { cidr: 0.0.0.0/0, except: [169.254.0.0/16, 100.100.100.200/32, 168.63.129.16/32, 192.0.0.192/32] }
    - ipBlock: { cidr: "::/0", except: ["fe80::/10", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128", "fd00:42::42/128"] }
{{ include "dnsPorts" . }}
{{- end }}

{{- define "lakeVolume" -}}
- { name: lake, persistentVolumeClaim: { claimName: {{ .Release.Name }}-lake } }
{{- end }}
