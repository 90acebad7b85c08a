"""Grafana dashboards as code: `python -m grafana` writes the JSON in dashboards/."""
