"""The parameter group of a running instance or cluster: compared, changed, put back."""
