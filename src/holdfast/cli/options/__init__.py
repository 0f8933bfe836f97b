"""Options that several commands have: the broker, settings, times, and the groups that `--help` sorts options into."""
