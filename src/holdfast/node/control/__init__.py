"""The control socket of a broker: who asks, and what is answered. The words themselves: `holdfast.control`.

Read `control_socket` (put together, opened, closed), `control_server` (connections and frames on the event loop) and
`control_words` (a method for each word; `block_words`: those of blocks). `control_watches` sends numbers once a second
(`broker_stats`, `storage_numbers`, `stored_log`), and clients as they come and go (`client_feed`, `client_rows`).
"""
