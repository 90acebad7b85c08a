"""The usual values of this pod: when they are learned, how they are kept, and the present beside them. Pure."""
