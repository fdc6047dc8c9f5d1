"""Copies topics, and what belongs to them, from one cluster to another: `pybroker mirror`.

Mirrors: MirrorMaker 2 (connect/mirror); with `simple`, MirrorMaker 1.
"""
