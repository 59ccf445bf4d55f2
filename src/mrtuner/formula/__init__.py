"""The algebra of sizes: what rules are written in, and the formula language of RDS."""
