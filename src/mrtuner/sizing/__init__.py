"""How application servers and their database fit: connections, waiting, CPU."""
