"""Spark's custom metrics of stateful operators and sources, and the names of the resulting metrics.

Each line: Spark's name, the metric's name (without `spark_streaming_`), how Spark counts, the help text.
`ms`: milliseconds, and like `batch` a sum over all tasks of one batch; `now`: a sum over all state stores at
present; `since`: a sum since the stores were loaded. RocksDB's statistics restart whenever a store is loaded,
which is once a batch, so even its counts are gauges and not counters.
"""

STATE = """
rocksdbGetCount  rocksdb_gets  batch  get calls
rocksdbPutCount  rocksdb_puts  batch  put calls
rocksdbGetLatency  rocksdb_get_seconds  ms  time in get calls
rocksdbPutLatency  rocksdb_put_seconds  ms  time in put calls
rocksdbCommitWriteBatchLatency  rocksdb_commit_write_seconds  ms  time to write batches at commit
rocksdbCommitFlushLatency  rocksdb_commit_flush_seconds  ms  time to flush at commit
rocksdbCommitCompactLatency  rocksdb_commit_compact_seconds  ms  time to compact at commit
rocksdbCommitPauseLatency  rocksdb_commit_pause_seconds  ms  time to pause background work
rocksdbCommitCheckpointLatency  rocksdb_commit_checkpoint_seconds  ms  time to take local checkpoints
rocksdbCommitFileSyncLatencyMs  rocksdb_commit_file_sync_seconds  ms  time to copy files
rocksdbChangeLogWriterCommitLatencyMs  rocksdb_commit_changelog_seconds  ms  time to commit changelogs
rocksdbSaveZipFilesLatencyMs  rocksdb_commit_zip_seconds  ms  time to copy zip files
rocksdbLoadLatencyMs  rocksdb_load_seconds  ms  time to load stores
rocksdbLoadFromSnapshotLatencyMs  rocksdb_load_snapshot_seconds  ms  time to load stores from snapshots
rocksdbReplayChangeLogLatencyMs  rocksdb_load_changelog_seconds  ms  time to replay changelogs
rocksdbNumReplayChangelogFiles  rocksdb_load_changelog_files  batch  changelog files replayed
rocksdbNumLoadedFromDfs  rocksdb_loads_from_checkpoint  batch  stores loaded from the checkpoint
rocksdbFilesCopied  rocksdb_copied_files  batch  files copied to the checkpoint
rocksdbBytesCopied  rocksdb_copied_bytes  batch  bytes copied to the checkpoint
rocksdbFilesReused  rocksdb_reused_files  batch  files that need no copy
rocksdbZipFileBytesUncompressed  rocksdb_zip_uncompressed_bytes  batch  bytes in zip files before compression
rocksdbReadBlockCacheHitCount  rocksdb_block_cache_hits  batch  reads served by the block cache
rocksdbReadBlockCacheMissCount  rocksdb_block_cache_misses  batch  reads that missed the block cache
rocksdbTotalBytesRead  rocksdb_read_bytes  batch  bytes read by get calls
rocksdbTotalBytesWritten  rocksdb_written_bytes  batch  bytes written by put calls
rocksdbTotalBytesReadThroughIterator  rocksdb_iterator_read_bytes  batch  bytes read through iterators
rocksdbTotalBytesReadByCompaction  rocksdb_compaction_read_bytes  batch  bytes read by compactions
rocksdbTotalBytesWrittenByCompaction  rocksdb_compaction_written_bytes  batch  bytes written by compactions
rocksdbTotalBytesWrittenByFlush  rocksdb_flush_written_bytes  batch  bytes written by flushes
rocksdbTotalCompactionLatencyMs  rocksdb_compaction_seconds  ms  time in compactions
rocksdbWriterStallLatencyMs  rocksdb_writer_stall_seconds  ms  time that writers were held up
rocksdbPinnedBlocksMemoryUsage  rocksdb_pinned_blocks_bytes  now  memory of pinned blocks
rocksdbSstFileSize  rocksdb_sst_files_bytes  now  size of all SST files
rocksdbNumExternalColumnFamilies  rocksdb_external_column_families  now  column families of the query
rocksdbNumInternalColumnFamilies  rocksdb_internal_column_families  now  column families of Spark's own
rocksdbNumInternalColFamiliesKeys  rocksdb_internal_keys  now  keys in column families of Spark's own
rocksdbNumSnapshotsAutoRepaired  rocksdb_repaired_snapshots  batch  snapshots repaired while loading
rocksdbForceSnapshotCount  rocksdb_forced_snapshots  batch  snapshots asked for by the coordinator
loadedMapCacheHitCount  state_cache_hits  since  loads of state from memory
loadedMapCacheMissCount  state_cache_misses  since  loads of state from files
stateOnCurrentVersionSizeBytes  state_version_bytes  now  estimated size of the version in use
numSnapshotsAutoRepaired  state_repaired_snapshots  batch  snapshots repaired while loading
forceSnapshotCount  state_forced_snapshots  batch  snapshots asked for by the coordinator
numDroppedDuplicateRows  state_dropped_duplicate_rows  batch  duplicate rows dropped
numRowsReadDuringEviction  state_eviction_read_rows  batch  rows read to find those to evict
numRowsIncrementallyRemoved  state_incrementally_removed_rows  batch  rows removed while others were read
skippedNullValueCount  state_skipped_null_values  batch  null values skipped in join state
initialStateProcessingTimeMs  state_initial_seconds  ms  time to process initial state
timerProcessingTimeMs  state_timer_seconds  ms  time to process timers
numValueStateVars  state_value_variables  batch  value state variables
numListStateVars  state_list_variables  batch  list state variables
numMapStateVars  state_map_variables  batch  map state variables
numDeletedStateVars  state_deleted_variables  batch  state variables deleted
numValueStateWithTTLVars  state_value_ttl_variables  batch  value state variables that expire
numListStateWithTTLVars  state_list_ttl_variables  batch  list state variables that expire
numMapStateWithTTLVars  state_map_ttl_variables  batch  map state variables that expire
numRegisteredTimers  state_registered_timers  batch  timers registered
numDeletedTimers  state_deleted_timers  batch  timers deleted
numExpiredTimers  state_expired_timers  batch  timers that expired
numValuesRemovedDueToTTLExpiry  state_expired_values  batch  values removed as expired
"""

SOURCE = """
minOffsetsBehindLatest  source_min_partition_offsets_behind  batch  Offsets behind, of the best partition.
maxOffsetsBehindLatest  source_max_partition_offsets_behind  batch  Offsets behind, of the worst partition.
avgOffsetsBehindLatest  source_avg_partition_offsets_behind  batch  Offsets behind, mean of the partitions.
numBytesOutstanding  source_outstanding_bytes  batch  Bytes that wait in the source.
numFilesOutstanding  source_outstanding_files  batch  Files that wait in the source.
minMsBehindLatest  source_min_partition_behind_seconds  ms  Time behind, of the best shard.
maxMsBehindLatest  source_max_partition_behind_seconds  ms  Time behind, of the worst shard.
avgMsBehindLatest  source_avg_partition_behind_seconds  ms  Time behind, mean of the shards.
totalPrefetchedBytes  source_prefetched_bytes  batch  Bytes fetched ahead of the batch.
"""
