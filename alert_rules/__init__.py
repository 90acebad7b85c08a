"""The rules that page the phase, as code: `python -m alert_rules` writes the files beside this one (README.md)."""
