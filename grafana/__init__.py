"""Grafana dashboards as code: `python -m grafana` writes the JSON, the provisioning files and the Kubernetes objects beside it."""
