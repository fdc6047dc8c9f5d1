"""Values that nobody should set, for every dynamic key of a broker and every key of a topic."""

from __future__ import annotations

from pybroker_kafka.broker.config.definitions import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    is_dynamic,
)
from pybroker_kafka.storage.config_def import ConfigType

LONG_NUMBER = "1" * 5000
NUMBERS = (
    "0", "-1", "1", "2", "4", "8", "14", "16", "100", "1000", "65536", "1048576", "1048577",
    "134217728", "2147483647", "2147483648", "-2", "-3", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-0", "+5", "007", " 5 ",
    "\t5\n", "\u00a05", "1_000", "1,000", "1 000", "0x10", "10L", "\u0663", "\U0001d7d3",
    LONG_NUMBER, "0" * 5000 + "7", "-", "+", "--1", "1-",
)  # fmt: skip
DOUBLES = (
    "0.5", ".5", "5.", "1.5", "-0.5", "1e3", "1e-9", "1E400", "-1E400", "0x1p3", "0x1p9999", "0.5d",
    "0.5f", "NaN", "nan", "-NaN", "Infinity", "-Infinity", "inf", "infinity", "0.5.5", "e5", "1e",
    "1.7976931348623157E308", "4.9E-324", "0.0", "-0.0",
)  # fmt: skip
WORDS = (
    "", " ", ",", ",,", "true", "TRUE", " false ", "yes", "null", "None", "delete", "compact",
    "compact,delete", "delete,delete", "delete,", "Compact", "DELETE", "gzip", "GZIP", " zstd ",
    "none", "uncompressed", "producer", "CreateTime", "LogAppendTime", "createtime", "*", "*,*",
    "0:1", "0:1,1:2", "0:1,", "0:-1", "a:b", "\u0663:1", "3.9", "3.0-IV1", "3.9-IV0", "3.9-IV9",
    "4.0", "4.0-IV1", "4.1", "0.8", "0.8.2", "0.8.2.1", "0.10.0-IV1", "0.10.0-IV7", "2.8.x", "2.8.",
    "3..9", "3.9x", "v3.9", "3", "3.-1", "x" * 32_000, "\u00e4" * 16_000, "\U0001f600", "a\0b",
    "{}", "${env:HOME}", "%s%n", "<script>", "../../etc/passwd",
)  # fmt: skip
HOSTS = (
    "127.0.0.1:5", "127.0.0.1:0", "127.0.0.1:-1", "127.0.0.1:5,::1:6", "127.0.0.1", "127.0.0.1:",
    ":5", "127.0.0.1:x", "127.0.0.1:2147483648", "no_host:5", "a b:5", "127.0.0.1:5,,",
    "127.0.0.1:5,127.0.0.1:6", "fe80::1%eth0:4", "-:1",
)  # fmt: skip
CLASSES = (
    "org.apache.kafka.common.metrics.JmxReporter", "no.such.Reporter", "java.lang.String",
    "org.apache.kafka.common.metrics.JmxReporter,",
)  # fmt: skip
ALL = (*NUMBERS, *DOUBLES, *WORDS, *HOSTS, *CLASSES)

DYNAMIC_KEYS = (
    *(name for name, definition in BROKER_CONFIGS.items() if is_dynamic(definition)),
    *DYNAMIC_ONLY_CONFIGS,
)
_PLENTY = {
    ConfigType.INT: (*NUMBERS, "0.5", "1e3", "NaN", "", " ", "true", "x" * 32_000),
    ConfigType.DOUBLE: (*NUMBERS, *DOUBLES, "", "true", "x" * 32_000),
    ConfigType.BOOLEAN: ("0", "1", "NaN", *WORDS[:12]),
}
_PLENTY[ConfigType.LONG] = _PLENTY[ConfigType.SHORT] = _PLENTY[ConfigType.INT]


def odd_values(name: str, config_type: ConfigType) -> tuple[str, ...]:
    """Those that a key of this kind may care for: the others all behave alike."""
    if name.endswith("overrides"):
        return (*HOSTS, *WORDS)
    if name == "metric.reporters":
        return (*CLASSES, *WORDS[:12])
    return _PLENTY.get(config_type, (*WORDS, "0", "1", "-1", "NaN"))
