"""What is wrong with a parameter group."""
