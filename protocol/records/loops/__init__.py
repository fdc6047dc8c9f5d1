"""The loops over encoded records: plain typed functions over ``bytes``, interpreted or compiled.

Each takes one decompressed records block of a v2 batch. They know nothing of headers, CRCs or
codecs, hold no state beyond a call or a small object, and raise only ``InvalidRecord``.

| module | loop |
|---|---|
| `scan` | check every record, as a leader does before it appends |
| `places` | where keys, values and headers lie, and each record's offset and time |
| `varint` | the numbers of all of them |
"""
