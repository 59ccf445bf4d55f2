"""Changing a server's settings, with ALTER SYSTEM or an include file."""
