"""`holdfast spark sql`: `views` makes the views `history`, `sessions`, `queues` and `retained`, and runs statements."""
