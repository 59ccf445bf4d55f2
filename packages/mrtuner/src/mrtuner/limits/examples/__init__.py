"""Metrics whose truth is known: the examples, and two simulators."""
