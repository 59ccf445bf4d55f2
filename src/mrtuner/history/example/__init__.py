"""A generated history to try things on: a shop's database at RDS, held down by its instance."""
