"""Predictions compared with this machine's own kernel."""
