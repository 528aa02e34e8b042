"""Bytes of files: paths, open and mapped files, compression, remote files, pieces and buffers."""
