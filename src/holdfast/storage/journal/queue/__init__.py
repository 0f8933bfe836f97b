"""The queue of one client: `queue` is what it owes, `state_file` and `message_file` its files, `loader` opens them."""
