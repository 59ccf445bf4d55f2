"""A primary, a standby and a client on this machine, to break in every way a failover can start."""
