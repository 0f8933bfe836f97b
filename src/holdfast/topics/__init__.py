"""Topic names and filters, and the live matcher that finds the subscribers of a topic. Pure."""
