"""What servers did: recorded, kept for years in files, and queried with SQL."""
