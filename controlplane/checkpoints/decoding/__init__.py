"""Decoders of what Spark writes into a checkpoint: compressed change files, zips, SSTs, schemas, checksums.

Each takes bytes, is bounded, and raises `Corrupt` with one sentence where the bytes are not what they should be.
"""
