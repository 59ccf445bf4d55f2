"""What the commands share: their options, targets, words and ways to end."""
