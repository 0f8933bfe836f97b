"""`holdfast spark run pipeline.toml`: a pipeline that is declared in a file.

    log ──▶ decode, rules ──▶ rows ──▶ windows ──▶ a table each          tables of Delta between all of them
                  │             ╰────────┴──────▶ published into a broker
                  ╰────▶ quarantine

A step reads a table (the first one the log) and writes a table, by a query of Spark with its own checkpoint. So
every step is repeated alone when it was killed, and what a step has read is the same whenever it is read again.

Read `declaration`, `parser` (with `part_parser`, `toml_fields`, `toml_lines`), then `job` and `steps`, and the tables:
`table`, `table_files`, `table_stream`. Modules that read and check a declaration do not know Spark: a mistake is found
before Spark is started.
"""
