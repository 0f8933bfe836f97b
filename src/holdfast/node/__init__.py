"""Assembly: the only place that picks implementations, and the node's life from start to stop."""
