"""What is recorded, for monitoring systems."""
