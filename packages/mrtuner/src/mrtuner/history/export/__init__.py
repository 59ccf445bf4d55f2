"""Export of what is recorded to monitoring systems."""
