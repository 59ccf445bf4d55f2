"""A rehearsed failover: what sets it off, who took over, what clients met."""
