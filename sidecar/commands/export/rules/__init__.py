"""The rules that page the phase, as code: `sidecar export rules` writes them, and `alert_rules/` holds what it writes."""
