"""Build and push both forms of an image, and count the bytes."""
