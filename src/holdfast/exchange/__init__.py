"""The path of a message: a buffer's packets become appends, deliveries and frames to send. Pure."""
