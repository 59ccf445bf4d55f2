"""What the server's log tells: its errors, and the plans that auto_explain writes there."""
