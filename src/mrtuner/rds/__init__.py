"""RDSTune: parameter groups that stay right on every instance class of Amazon RDS."""
