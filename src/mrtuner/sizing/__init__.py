"""Application servers before their database: connections, waiting, CPU."""
