"""A rehearsed failover: what sets it off, what took over, what clients experienced."""
