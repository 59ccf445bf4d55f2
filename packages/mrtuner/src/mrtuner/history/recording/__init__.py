"""Recording: what is sampled, by whom, and what of it is worth keeping."""
