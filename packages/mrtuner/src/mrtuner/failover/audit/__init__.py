"""Settings really in force: on live connections, at the server, and in between."""
