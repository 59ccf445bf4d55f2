"""Compute, before a build, what a change costs an image: bytes sent, rebuilt and pushed."""
