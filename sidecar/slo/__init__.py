"""What was promised, and whether it was kept: thresholds and targets per lane and prompt length, verdicts, blame. Pure."""
