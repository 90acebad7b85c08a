"""The work of the engine, and the seconds that it costs now beside the usual ones: steps, decodes, prompts. Pure."""
