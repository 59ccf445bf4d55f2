"""Live credential rotation: two login roles of one group, blue and green, one in use at a time."""
