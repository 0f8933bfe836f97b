"""A node is installed from another one: `source` makes and serves a checkpoint, `install` fetches it in pieces."""
