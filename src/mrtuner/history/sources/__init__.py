"""What is recorded: one SQL file for each source and version, with its columns declared on top.

`name.sql` is for PostgreSQL 13 and later, `name.170000.sql` for 17 and later. The oldest one
begins with a comment in TOML that declares the source; `mrtuner.history.source` describes it.
"""
