"""Files of data directories: of Apache ZooKeeper 3.9.3, and of an earlier version of ours.

Logs of ZooKeeper's are without the zeros at their end. `ONE_ALONE` had a client of each kind of
write, and was started twice; `MEMBER` is the only member of an ensemble, reconfigured once;
`EARLIER` has what `busy_world` logs, a snapshot in between, and a torn record at its end.
"""

import base64
import zlib

ONE_ALONE = {
    "log.1": (
        "eNqVlF9IU3EUx++9u/vj3eb8M6kgSiror90lmiArUDRZZuFDGmV/llu6SiWdrFGQYiYIQhRKaSplL5W9FPQY"
        "qNFDLyZofx6iHnoogsDKXgrXuWfntw5oui67nrM7z/fzvef8fr/D5fvKJElSJHbNdGptEDyypD6smOW/SDJ8"
        "7qzr3VQTi8V+StL+bFFb+fzViWIjeT2h9bNimRUrVBz+Z3HG3VUhCN2MLARMVByhZ4ruh79qwB/2k4zx1BII"
        "1QVbwpCtaS3ce64gUhEt0iO5VYH8al9JUXmgNe+Az7entHIX/MdauM2RpuazAaPQ3xhtagwKIurdLx2ZRlvv"
        "8xzPIBxitkTDVLJ1iQpV3a8H/zZrUYjMIY9f+H4hpKfP+QNCLYOYSMhMkHbIXcYNkJYcj7h2LMMTfvHO8ER/"
        "I2/7Qa0LQhHjqSRkId7lOJt6bS1rnngyMRxk7pX6fu8oqoUcWVshRJiamdSspNYVzxdzL5z/z/gSHqK9njPo"
        "Yd7teglhiHmwkAcbeeiBPJXe1BDIoZE1GN8blumhMQ4n3FqiJQq9pivxRM5lzbYxdXw2lz12Gq0OhlYXQrjI"
        "rFrJagpZvUpWTeRqG4k1JjFtFXZYjOIAy+cXGIm+sY9C2MCM2AigkZHrsfg1gAVvvVoH29/84LBTQW98f29M"
        "W0DL/uBMh3CUFYv97aDiPsizsJ3h5V80Tt/5tY1ydUv7p/VImlIcRl0VIwmrTiLdgDwTSbUGpXZplEkgHnmH"
        "6hFhS3N0slNBYRs2lRA3CWHW62gyS0NUsaaueAuvIWS37vwG4QibTwrpuAgyQJpWhOjnk1gfYu9YVt4e/4ic"
        "6eO2dxAKGEcjoTTi3KIixkGvBbOf3agxNmvnPZfZdNNJYzBxep9M4pA0C8SDYc2BiC+Tzm7Wc5mNNYMQQ+wk"
        "TgaS6PnM5NPvCKmeNI9DyJcWXplxyOYSyN18sLg0+i501KDCsXv2UmN4zKZYGm5SaIBNMic2CBoVhnEhTa04"
        "VVH8B4dLPaQ="
    ),
    "snapshot.0": (
        "eNqL8g72Y2BgYPoPBQwQwIhEwzBreX5RTgqQwZaYV5mflwpVwoCmlVzApV+Vn5+dmlqQWkRFUwURpuon5+el"
        "ZaYjSTISawoOhwggGV5Yml+SSEWHM+qDyB2LrD3hHChgQlY2dadtJLoChr0v7HPBggAJCkHu"
    ),
    "snapshot.14": (
        "eNqL8g72Y2BgYPoPBSA2IwPLWt+PQBaDnwKUzcTAoC4AFGBhgABGJMxanl+UkwJksCXmVebnpUKVMEExSAlb"
        "SmZ6anEJkCVXauVVaF7uW+moX24UlmIa7uni6J1SauLv6enmGmgLVCGP20hmqHF4lLAgKSHFVjBACgRiACsW"
        "MRGQr/UTQa4wQgoImOtBgAMot0hpqkY5lO6FqmHBYRy/fqJ+sa4BDBgiSbOguYQVamQjgoYDRiyuZwEanYok"
        "xoxmLgvUnHoEjWwgLJnA9TDpJ4MkktGM40XQYGNmIGgEaEB1HkgPl35Vfn52ampBahEZ0YMLCCJM1U/Oz0vL"
        "TMcTSjgBDocIIBleWJpfkkhFhzPpl2CJKx4EDQ7UaQgaybUgwuxdA5IeRn0Q68y3pgtwDiz9gky/KJ7mCxLg"
        "TGs/ga6AwZOr8xRYEABUQoug"
    ),
}
MEMBER = {
    "acceptedEpoch": ("eNozBAAAMgAy"),
    "currentEpoch": ("eNozBAAAMgAy"),
    "log.100000001": (
        "eNqL8vZxZ2BgYGJAApeDuSyBlAEjA8va2O9wYUYIZlykNNVC9f///98YGNQFYHoDj11LcAIxTj/n3gekwpE0"
        "QzWCFII168H4+kUgVhGUKw/ErOX5RTkpQAZbYl5lfl4qklYGxrYvDQxgOxj3GR8DUmeR7GCCKmSG2mEFZIMc"
        "J6hflZ+fnZpakFqkn5yfl5aZDhRsKU4tKkst0jO0NTQy1zMAQkMrIyMTAyBpYGhpZlWQWFSSmZxZkJhXYo2k"
        "wtTCzIwLqtUIWauZibkZUNrUwMQqPwmiAEmfsYGZiQUXUKw4Mz/P1tAAAoyBIfgfw2d8hty1QMoMyWfMUJ+x"
        "QH0WCtT3FSUEwRGwtuTxaycA2rxfZg=="
    ),
    "snapshot.0": (
        "eNqL8g72Y2BgYPoPBQwQwIhEwzBreX5RTgqQwZaYV5mflwpVwoCmlVzApV+Vn5+dmlqQWkRFUwURpuon5+el"
        "ZaYDBV2KU4vKUov0DG0Njcz1DIDQ0MrIyMQASBoYWppZFSQWlWQmZxYk5pVYI6kwtTAz4wLqK87Mz7M1QAsp"
        "LIBxkdJUsx0wT+DwjACSAwtL80sSqeh5Rn0Q2bEsZDOcAwVMyMq2/A6XQlfA8C8hMgssCACaF1u7"
    ),
}
EARLIER = {
    "log.0000000000000001": (
        "eNoLiIzy9vF352JgYGAMNTfxANIqCp+u72HoPv80gwEFMAIRWPT////fGBiYX4DUCuSHykDVMiKpZcKiNtT4"
        "s74xkrkw9cwwtVAxJv1EIMmSkliSCBWRB2LW8vyinBQggy0xrzI/LxXVYQzBqbNCZiIZzgSVY0EznEU/UT8V"
        "6Kj/+IxGdWOcyvk7L5HEmKFGs6IZzQ80uljXAAYMkVxHwAMgxwZyRL3gRrKFBSrHhmSLMDh0kgkY3IBmcPx8"
        "ncNIBrNC5diRDBYFG1xCwOD/YNlXCdA4i6pRZAlFMpgNqp0DyWBWWHwy6vwfBUQDUCQAAKhZnW8="
    ),
    "log.0000000000000009": (
        "eNoLiIzy9vF352JgYGAMNTfxANKuGvsK5Ri6zz/NYAADdgjFwAlUAhMFiTHpJ4J0QTFTZgFIjaGRuZ4BEBpC"
        "hVUu/dl3F8kwDqhhXDDD/kPALKCYt6p/TwCSWk6oWm4ki/mAmBmIecEOSAaSrHAWI8xSJrBQCcj6muV1RkhG"
        "ckGN5EGzfiZQLOQo08IEqFqYrxggVsGtB4mx6qfn56VCJUEC8iDB8vyinBQggy0xrxIkjTCHBYh1n8ctXock"
        "xgTVzofkjq/o5geU5BflAQATQlcL"
    ),
    "snapshot.0000000000000008": (
        "eNoLiIzyDvZzDGBgYGBkgAAOIGZi6D7/NAPMZX4BZTOC2SA5iFp5IGYtzy/KSQEy2BLzKvPzUqFSjNilOEFS"
        "+gzEAXYc4sxQmku/Kj8/OzW1ILWIgTpAAGGifmFpfkkilcwVRDI3OT8vLTMdKsFIron/gQAUE/pAJzLq/B8F"
        "RAM8CYoDSrMCwxSa+mE0OKaYoPIs+on6qXCz4PkEIodJY5iFDPiBZhXrGsCAIY74ZsWk8RrLpJ8MYzagyrBh"
        "0gRMKoEnOjD5KgEtfyLRuE2aNd06FgDD2IAt"
    ),
}


def unpacked(files: dict[str, str]) -> dict[str, bytes]:
    return {name: zlib.decompress(base64.b64decode(packed)) for name, packed in files.items()}
