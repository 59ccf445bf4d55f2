"""The operations of RDS that the lab answers, by resource."""
