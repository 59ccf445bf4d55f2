"""What would make deploys of an image cheaper: patches, costed before anything is built."""
