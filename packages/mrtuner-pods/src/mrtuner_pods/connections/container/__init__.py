"""What is in one container: its commands, its framework and application server, its pools."""
