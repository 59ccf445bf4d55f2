"""Sizing application servers against their database: connections, waiting, CPU."""
