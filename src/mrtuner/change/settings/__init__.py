"""Changing the settings of a server, with ALTER SYSTEM or an include file."""
