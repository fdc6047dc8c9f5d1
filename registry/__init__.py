"""The schema registry: Confluent's REST API over a compacted topic, with our client.

`pure` rooms of it (`state`, `writes`, `reads`, the formats) know no trio; `store`, `election` and
`server` are the shell.
"""
