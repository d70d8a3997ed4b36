"""Bytes in bulk: between memory and files, by several threads, each byte touched once.

    cutting   storages as parts of one size;  parts: the reading and writing of one
    moving    many parts by several threads;  checksum: what tells one content from another

What stands here knows neither values nor formats: parked files and snapshots are both made of it.
"""
