"""Problems in a parameter group."""
