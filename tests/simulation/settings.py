"""What a seed chooses before the run: the shape of the cluster, and what its topics promise."""

from random import Random

from pybroker_kafka.protocol.topics import SHARE_STATE_TOPIC
from pybroker_kafka.storage.log_config import LogConfig

STATE_SEGMENT_BYTES = 10_000
_LOG_CONFIGS: dict[tuple[str, ...], LogConfig] = {}


class Settings:
    """All of it is drawn from one `Random`, so that the seed says everything."""

    def __init__(self, random: Random) -> None:
        self.broker_count = random.choice((3, 3, 3, 4, 5))
        self.partition_count = random.choice((1, 1, 2))
        self.replication_factor = 3
        self.min_insync_replicas = random.choice((1, 2, 2, 2))
        # With a flush before every acknowledgement any power cut must be survived.
        self.flushes = random.random() < 0.25
        self.longest_flush_ms = random.choice((15, 15, 200))
        self.truncates_on_fetch = random.random() < 0.75
        self.unclean_elections = random.random() < 0.05
        self.replica_lag_ms = random.choice((800, 1_500, 3_000))
        self.session_timeout_ms = random.choice((1_000, 1_500, 2_500))
        self.fault_pause_ms = random.choice((300, 700, 1_500))
        self.faults_ms = random.choice((6_000, 9_000, 12_000))
        self.reassigns = random.random() < 0.4
        self.segment_bytes = random.choice((600, 2_000, 20_000))
        self._make_log_config()

    def forbid_unclean_elections(self) -> None:
        self.unclean_elections = False
        self._make_log_config()

    def _make_log_config(self) -> None:
        self.log_config, self.state_log_config = (
            _log_config(size, self.min_insync_replicas, self.flushes, self.unclean_elections)
            for size in (self.segment_bytes, STATE_SEGMENT_BYTES)
        )

    def log_config_of(self, topic: str) -> LogConfig:
        """A state of a share partition has to fit into a segment."""
        return self.state_log_config if topic == SHARE_STATE_TOPIC else self.log_config

    def __str__(self) -> str:
        words = [
            f"{self.broker_count} brokers", f"{self.partition_count} partitions",
            f"min.insync.replicas={self.min_insync_replicas}",
            f"replica.lag.time.max.ms={self.replica_lag_ms}",
            f"session timeout {self.session_timeout_ms}", f"segments of {self.segment_bytes} bytes",
        ]  # fmt: skip
        if self.flushes:
            words.append("flush.messages=1")
        if self.unclean_elections:
            words.append("unclean elections")
        if self.reassigns:
            words.append("reassignments")
        if not self.truncates_on_fetch:
            words.append("truncation by OffsetForLeaderEpoch")
        return ", ".join(words)


def _log_config(segment_bytes: int, min_insync: int, flushes: bool, unclean: bool) -> LogConfig:
    overrides = {
        "segment.bytes": str(segment_bytes),
        "segment.index.bytes": "480",
        "index.interval.bytes": "200",
        "min.insync.replicas": str(min_insync),
        "file.delete.delay.ms": "1000",
        "unclean.leader.election.enable": str(unclean).lower(),
    }
    if flushes:
        overrides["flush.messages"] = "1"
    key = tuple(overrides.values())
    config = _LOG_CONFIGS.get(key)
    if config is None:
        config = _LOG_CONFIGS[key] = LogConfig.from_overrides(overrides, {})
    return config
