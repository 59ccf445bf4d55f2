"""What is checked, one module for each area; `catalogue` loads all of them."""
