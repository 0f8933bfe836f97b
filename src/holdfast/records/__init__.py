"""What is written to disk, byte by byte, apart from where it is kept. Pure."""
