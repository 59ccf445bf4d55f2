"""Clients and a database that goes away: what they see, measured on their side."""
