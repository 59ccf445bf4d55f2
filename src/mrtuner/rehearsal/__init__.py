"""Let a server go away, and time the outage from the client's side."""
