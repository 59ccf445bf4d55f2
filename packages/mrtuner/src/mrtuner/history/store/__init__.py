"""Where history is kept: recent rows in SQLite, the others in sorted Parquet files."""
