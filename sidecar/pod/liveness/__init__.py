"""Whether the engine sends output at all, judged against the work that explains its silence. Pure."""
