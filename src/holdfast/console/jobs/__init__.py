"""Jobs: commands that the console runs as processes of their own. Read `replay_request`, then `jobs`."""
