"""A server and its machine as recorded: for `tune` and `limits`."""
