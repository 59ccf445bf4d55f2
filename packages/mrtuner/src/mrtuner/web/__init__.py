"""The viewer: an API over a history, and the page that shows it."""
