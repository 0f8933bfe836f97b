"""The life around the message path: connections, and what they may ask for."""
