"""The parameter group of a running instance or cluster: compare, change, undo."""
