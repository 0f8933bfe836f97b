"""RocksDB: the engine and what is kept in it."""
