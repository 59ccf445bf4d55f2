"""Parameter groups: derived from the rules, or read from files and from AWS."""
