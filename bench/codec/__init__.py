"""The pure packages measured: what a message costs in `wire` and `topics`, interpreted and compiled."""
