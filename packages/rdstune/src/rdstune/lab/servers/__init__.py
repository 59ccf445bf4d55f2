"""The PostgreSQL servers behind the lab's instances."""
