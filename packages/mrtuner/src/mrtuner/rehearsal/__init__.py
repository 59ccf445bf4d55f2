"""Let a server fail, and time the outage as clients see it."""
