"""Talking to AWS: sessions, error codes, and one file a service with one function a call."""
