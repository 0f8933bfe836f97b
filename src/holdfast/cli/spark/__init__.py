"""`holdfast spark`: a module for each command: it reads options, runs a job of `pipeline`, and prints the outcome."""
