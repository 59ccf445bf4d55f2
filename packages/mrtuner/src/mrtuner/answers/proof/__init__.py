"""A proof: its loads, its sides, and the measurement."""
