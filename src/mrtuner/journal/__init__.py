"""A change as a transaction: what was there before, every step before it is taken, the way back."""
