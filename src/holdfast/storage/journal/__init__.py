"""Client queues in files: a folder for each client, and one shared file that makes appending safe for all of them."""
