"""What a broker's memory and its bystanders notice of clients that are slow, deaf, away, or all back at once."""
