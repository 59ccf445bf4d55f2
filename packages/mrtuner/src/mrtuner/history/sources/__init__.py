"""What is recorded: one SQL file for each source, with its columns declared at the top.

`history.recording.source` describes the declaration. Where versions of PostgreSQL differ, lines are
marked, or a version has a file of its own, as in `mrtuner.postgres.sql`.
"""
