"""`holdfast spark run pipeline.toml`: a pipeline that is declared in a file.

    log ──▶ decode, rules ──▶ rows ──▶ windows ──▶ a table each          tables of Delta between all of them
                  │             ╰────────┴──────▶ published into a broker
                  ╰────▶ quarantine

A step reads a table (the first one the log) and writes a table, by a query of Spark with a checkpoint of its own. So
every step is repeated alone when it was killed, and what a step has read is the same whenever it is read again.

Modules that read and check a declaration know nothing of Spark: a mistake is found before Spark is started.
"""
