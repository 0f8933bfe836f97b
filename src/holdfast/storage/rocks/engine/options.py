"""RocksDB's settings, each with its reason. Nothing here changes what is stored, so all of it may be tuned.

What is left alone on purpose:

- `atomic_flush`: it makes the families' flushes one step for databases that write without a WAL. Here every batch
  is in the WAL, and recovery replays it into all families alike.
- blob files: with payloads of 1 KB and of 16 KB they saved one seventh of the bytes written (2.1 against 2.4 times
  the payload, and 2.0 against 2.4), because keys arrive in time order and files are moved down, not merged. That
  does not pay for a second kind of file to check, repair and back up.
- `recycle_log_file_num`: a recycled WAL ends in old records, which recovery cannot tell from damage.
- `manual_wal_flush`: a batch that is still in our memory when the process is killed would be a lie in durability `os`.
"""

from typing import Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    WriteBufferManager,
    WriteOptions,
)

from holdfast.storage.rocks.engine.column_families import CLUSTER, META, RETAINED, SESSIONS

#: RocksDB's own first family cannot be dropped or renamed. It holds the number of the last batch, nothing else.
DEFAULT: Final = "default"
#: Families that live as long as the node.
LASTING_FAMILIES: Final = (META, SESSIONS, RETAINED)

#: The WAL is replayed at every start. Without a bound, one quiet family keeps all of it: 894 MB took 6 s.
MAX_WAL_BYTES: Final = 128 << 20
#: All memtables together. Families come and go, so a bound for each of them bounds nothing.
WRITE_BUFFERS_BYTES: Final = 256 << 20
#: Blocks of the log. What was published just now is in memory anyway, and a replay reads each block once: a cache only
#: helps those who read the same part side by side. It is small, so that it is full soon and memory stays where it is.
LOG_CACHE_BYTES: Final = 16 << 20
#: Blocks of all other families, which are looked up by key: above all filters and indexes, for a few million sessions.
LOOKUP_CACHE_BYTES: Final = 48 << 20

#: One memtable of sessions, and of what a cluster knows of clients. Beside it everything else of an offline session
#: takes some 50 bytes of memory; with 8 MB, 10,000 of them took 550 bytes each, with 2 MB 340, for 9 % more bytes
#: written. 100,000 registrations at another node took 8.2 MB with 8 MB, and 3.8 MB with 2 MB, at the same speed.
SMALL_BUFFER_BYTES: Final = 2 << 20

#: Settings that rocksdict has no method for. A compaction takes the blocks of its old files out of the cache: what is
#: overwritten all the time, as sessions are, would fill the cache with blocks of files that are gone.
LASTING_SETTINGS: Final = {"uncache_aggressiveness": "100"}

#: A part of a filter or an index, for 3,000 keys.
_FILTER_PART_BYTES: Final = 4 << 10

_MB: Final = 1 << 20


class SharedOptions:
    """What all families of one database share. It lives as long as the database."""

    def __init__(self) -> None:
        self.log_cache: Final = Cache(LOG_CACHE_BYTES)
        self.lookup_cache: Final = Cache(LOOKUP_CACHE_BYTES)
        # No stalling inside RocksDB: it would freeze the loop. Stalls come back as errors (`no_slowdown`).
        self.buffers: Final = WriteBufferManager(WRITE_BUFFERS_BYTES, False)


def database_options(shared: SharedOptions, recovery: DBRecoveryMode) -> Options:
    """For the database as a whole, and its default family."""
    options = family_options(DEFAULT, shared)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_wal_recovery_mode(recovery)
    options.set_max_total_wal_size(MAX_WAL_BYTES)
    options.set_write_buffer_manager(shared.buffers)
    # One flush and one compaction: there are two cores, and the broker's loop needs one of them.
    options.set_max_background_jobs(2)
    # Files are handed to the disk while they are written, so that their fsync does not delay the WAL's.
    options.set_bytes_per_sync(_MB)
    # Below the usual limit of 1024 descriptors. Sizes of all files are compared with the MANIFEST at open anyway.
    options.set_max_open_files(512)
    # RocksDB starts its 16 for each family: an open of 7 families takes 11 ms of processor time with them, 8 without.
    options.set_max_file_opening_threads(1)
    # Statistics for choosing compactions; reading them from every file makes opening slow.
    options.set_skip_stats_update_on_db_open(True)
    # RocksDB's own diary: at most four files of 8 MB, and no statistics in it every ten minutes.
    options.set_keep_log_file_num(4)
    options.set_max_log_file_size(8 * _MB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    # A MANIFEST grows with every generation and flush, and is read at every start.
    options.set_max_manifest_file_size(16 * _MB)
    return options


def family_options(name: str, shared: SharedOptions) -> Options:
    """For one family: a log generation is written once in time order, the others are overwritten and looked up."""
    options = Options(raw_mode=True)
    blocks = BlockBasedOptions()
    if name.startswith(("log-", "segments-")):
        blocks.set_block_cache(shared.log_cache)
        # A replay reads neighbours: larger blocks compress better. Single messages, found by postings, still are cheap.
        blocks.set_block_size(16 << 10)
        # No bloom filter: files of a generation hardly overlap, and who asks for a key of the log knows that it exists.
        options.set_write_buffer_size(32 * _MB)
    else:
        blocks.set_block_cache(shared.lookup_cache)
        blocks.set_block_size(4 << 10)
        # Sessions and retained topics are asked for by key, often in vain: ten bits spare 99 of 100 such reads.
        blocks.set_bloom_filter(10, False)
        # In parts of a few kilobytes: the filter of a whole file is as large as a shard of the cache, so two of them
        # take turns in it, and each look-up reads one from the disk. With 600,000 sessions a connect took 2 ms.
        blocks.set_partition_filters(True)
        blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
        blocks.set_metadata_block_size(_FILTER_PART_BYTES)
        blocks.set_pin_top_level_index_and_filter(True)
        options.set_write_buffer_size(SMALL_BUFFER_BYTES if name in (SESSIONS, CLUSTER) else 8 * _MB)
    # Index and filters count as cache, so that memory has one bound; those of new files stay in it.
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options.set_block_based_table_factory(blocks)
    # One memtable fills while others are flushed: with two, a slow disk stalls writes at once.
    options.set_max_write_buffer_number(4)
    # Files small enough to be rewritten in one go, large enough that a node has thousands and not a million.
    options.set_target_file_size_base(32 * _MB)
    options.set_level_compaction_dynamic_level_bytes(True)
    if name.startswith("segments-"):
        # Keys only grow, so a table overlaps no other. It is moved to the last level at once, and not rewritten there,
        # because its compression is that of the last level already.
        options.set_level_zero_file_num_compaction_trigger(1)
        options.set_compression_type(DBCompressionType.zstd())
    else:
        # Fast where data is rewritten, dense where it rests.
        options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    return options


def write_options() -> WriteOptions:
    """No sync (the commit thread does that for many batches), and no waiting inside RocksDB."""
    options = WriteOptions()
    options.sync = False
    options.no_slowdown = True
    return options
