"""The layouts of the log, measured on the same messages."""
