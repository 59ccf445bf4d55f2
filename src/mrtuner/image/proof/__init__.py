"""Both forms of an image built, pushed and counted."""
