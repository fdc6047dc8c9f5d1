"""unittest: one cluster for a class, without pytest's fixtures."""

from __future__ import annotations

import unittest

from kafka import KafkaProducer

from pybroker_kafka.testing import KafkaCluster


class OrdersTest(unittest.TestCase):
    kafka: KafkaCluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.kafka = KafkaCluster()
        cls.kafka.start()
        cls.addClassCleanup(cls.kafka.stop)

    def test_one_order(self) -> None:
        orders = self.kafka.topic("orders")
        with KafkaProducer(bootstrap_servers=self.kafka.bootstrap) as producer:
            producer.send(orders, b"x").get(5)
        self.assertEqual([record.value for record in self.kafka.records(orders)], [b"x"])  # noqa: PT009

    def test_topics_have_names_of_their_own(self) -> None:
        self.assertNotEqual(self.kafka.topic("bills"), self.kafka.topic("bills"))  # noqa: PT009


if __name__ == "__main__":
    unittest.main()
