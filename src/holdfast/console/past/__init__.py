"""The past: questions to the history process, and files made of its answers."""
