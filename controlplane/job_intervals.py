"""Intervals of the server's periodic jobs, in seconds. Used by `controlplane.app`."""

JUDGE_SECONDS = 5.0
SUPERVISION_SECONDS = 1.0
BULK_SECONDS = 1.0
APPS_SECONDS = 5.0
RETENTION_SECONDS = 600.0
OFFLOAD_SECONDS = 10.0
CHECKPOINT_SECONDS = 1.0
TOKEN_RELOAD_SECONDS = 5.0
DICTIONARY_SECONDS = 6 * 3600.0
FIRST_RUN_SECONDS = 20.0  # soon after the start, so that the disk reserve is created
RULE_RELOAD_SECONDS = 10.0
SAVE_SERIES_SECONDS = 300.0
