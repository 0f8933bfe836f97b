"""History as processes of their own serve it."""
