"""A search: on a server of our own, on a live one, with the statements of a database."""
