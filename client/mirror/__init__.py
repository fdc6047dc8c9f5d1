"""Copies topics, and the data that belongs to them, between clusters: `pybroker mirror`.

Mirrors: MirrorMaker 2 (connect/mirror); with `simple`, MirrorMaker 1.
"""
