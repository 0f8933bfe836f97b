"""Lakes that are Iceberg tables: `pyiceberg` commits, Spark's workers write Parquet as they do for Delta.

Read `iceberg_lake`, then `catalog` (which table, and what goes wrong there), `mark` (how far the table is),
`table_files` (columns and files as Iceberg has them), `upkeep` (old snapshots, left files).
"""
