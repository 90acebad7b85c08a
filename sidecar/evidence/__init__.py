"""What the whole engine shows while requests wait: the cost of its prefills, and its silences. Pure."""
