"""The same answers for agents, by the Model Context Protocol: tools that only read."""
