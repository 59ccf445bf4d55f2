"""AWS: sessions, error codes, and one file per service with one function per call."""
