"""The algebra of sizes in which rules are written, and the formula language of RDS."""
