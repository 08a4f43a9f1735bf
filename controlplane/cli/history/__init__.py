"""Commands of `controlplane history`: import, ingest, rollup, report, offload, compact."""
