"""What `mrtuner check rds:NAME` looks for beside the server itself."""
