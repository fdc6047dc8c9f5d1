"""What is read off a broker's metrics."""

from __future__ import annotations

import trio

from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.observability.metrics_http import serve_metrics
from pybroker_kafka.console.measured import PLOTTED, log_ends, measured
from pybroker_kafka.local.metrics_ports import read_all

TEXT = """\
# HELP kafka_server_brokertopicmetrics_bytesin_total Bytes produced by clients.
kafka_server_brokertopicmetrics_bytesin_total{topic=""} 10.0
kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 7.0
kafka_network_requestmetrics_requests_total{request="Fetch",version="17"} 4.0
kafka_network_requestmetrics_requests_total{request="Fetch",version="13"} 5.0
kafka_network_requestmetrics_requests_total{request="FetchFollower",version="13"} 5.0
kafka_network_requestmetrics_totaltimems{quantile="0.50",request="FetchFollower"} 1.5
kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 9.0
kafka_network_requestmetrics_totaltimems{quantile="0.50",request="Fetch"} 1.5
kafka_network_requestmetrics_totaltimems{quantile="0.75",request="Fetch"} 2.5
kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Produce"} 3.0
process_resident_memory_bytes 1e+06
kafka_consumergroup_lag_sum{consumergroup="billing",topic="a"} 4.0
kafka_consumergroup_lag_sum{consumergroup="billing",topic="b"} 3.0
kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="a"} 4.0
kafka_log_log_logendoffset{partition="1",topic="a"} 12.0
kafka_log_log_logendoffset{partition="2",topic="b"} 13.0
"""


def test_totals_are_summed_and_topics_not_counted_twice() -> None:
    found = measured(TEXT)
    assert found.totals == {"bytes in": 10.0, "requests": 9.0}
    assert found.gauges == {"memory": 1e6}
    assert found.purgatory == {"Produce": 3.0}
    assert found.lags == {"billing": 7.0}
    assert found.stages == {"Fetch": {"total": {"p50": 1.5}}}
    assert log_ends(TEXT, "a") == {1: 12}


async def test_the_port_of_a_broker_is_read_and_one_that_is_not_there_left_out() -> None:
    metrics = BrokerMetrics()
    metrics.gauge("kafka_network_requestchannel_requestqueuesize", lambda: 2)
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_metrics, metrics, 0)
        found = await read_all({1: ("127.0.0.1", port), 2: ("127.0.0.1", 1)}, PLOTTED)
        assert found.keys() == {1}
        assert "# HELP" not in found[1]
        assert measured(found[1]).gauges["request queue"] == 2.0
        nursery.cancel_scope.cancel()
