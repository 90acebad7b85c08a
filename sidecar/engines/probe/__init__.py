"""The questions that the sidecar asks the engine on its own account: whether it is there, what it is, how full it is, and what would make it tell more."""
