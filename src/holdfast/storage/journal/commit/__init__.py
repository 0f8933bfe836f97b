"""The commit file: one sync makes the changes of all queues durable (`commit_file`, `recovery`)."""
