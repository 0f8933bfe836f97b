"""Messages as Arrow record batches (`message_batches`), without a Python loop per row, and as files (`file_writer`)."""
