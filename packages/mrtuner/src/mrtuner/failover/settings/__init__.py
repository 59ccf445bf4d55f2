"""Settings that bound a hang, for each client stack."""
