"""A sidecar that splits the latency of LLM requests into five phases and pages the phase."""

__version__ = "0.1.0"
