"""The log on disk: commits, replays, starts and bytes."""
