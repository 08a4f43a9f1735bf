"""Decoders of the binary files in a checkpoint: change files, snapshot zips, SST files, schemas, checksums.

Each takes bytes, bounds its memory, and raises `Corrupt` with one clause about damaged bytes. Callers write
"it" for the file, so a message starts with "it" or a part of the file.
"""
