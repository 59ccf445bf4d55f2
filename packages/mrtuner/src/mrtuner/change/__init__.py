"""A change as a transaction: journalled before each step, verified, and exactly reversible."""
