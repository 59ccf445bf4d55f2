"""What one changed line costs in a container image: sent, rebuilt and pushed, before building."""
