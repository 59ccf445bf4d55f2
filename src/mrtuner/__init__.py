"""MrTuner: PostgreSQL settings with their reasons, their proof and the way back."""

__version__ = "0.1.0"
