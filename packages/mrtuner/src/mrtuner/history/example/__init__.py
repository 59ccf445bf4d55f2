"""A generated history to try things on: a shop's database on RDS, limited by its instance."""
