"""Metrics of an instance: fetched, read from a file, or watched."""
