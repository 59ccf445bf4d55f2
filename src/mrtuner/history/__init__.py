"""What servers did: recorded, kept for years in files, and asked with SQL."""
