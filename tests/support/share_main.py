"""`pybroker` with share groups, which no release of ours supports yet."""

from types import MappingProxyType

from pybroker_kafka.protocol import features

if __name__ == "__main__":
    levels = {**features.SUPPORTED, features.Feature.SHARE: (0, 1)}
    features.SUPPORTED = MappingProxyType(levels)  # type: ignore[misc]
    from pybroker_kafka.__main__ import main

    main()
