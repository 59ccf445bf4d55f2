"""What `mrtuner check --with pods:MANIFEST` looks for."""
