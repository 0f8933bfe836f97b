"""One suite per contract, run over every implementation."""
