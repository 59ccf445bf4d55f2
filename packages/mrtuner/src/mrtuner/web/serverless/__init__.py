"""The viewer as Lambda functions, and what AWS needs to run them."""
