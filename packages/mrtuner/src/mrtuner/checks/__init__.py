"""Is this server all right? Every known trouble, looked for in one reading of it."""
