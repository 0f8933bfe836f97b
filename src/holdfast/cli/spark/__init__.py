"""`holdfast spark`: a module for each command: it reads options, runs a job of `pipeline`, and prints the outcome.

Everything that can be wrong with the options is found before Spark is started, and without importing it. Exit codes: 0
done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C. A command that has more says so.
"""
