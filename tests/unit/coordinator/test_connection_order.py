"""Which requests come late."""

from pybroker_kafka.coordinator.connection_order import ConnectionOrder, ConnectionOrders


def test_what_comes_out_of_an_older_connection_is_late_once() -> None:
    order = ConnectionOrder()
    for connection in (3, 3, 5):
        assert not order.is_late(connection)
    assert order.is_late(3)
    assert not order.is_late(5)
    assert order.is_late(4)
    assert not order.is_late(4)  # it asks again: it is alive
    assert order.is_late(3)


def test_of_many_senders_the_oldest_is_forgotten() -> None:
    orders = ConnectionOrders[str](2)
    assert not orders.is_late("a", 5)
    assert not orders.is_late("b", 9)
    assert orders.is_late("b", 8)
    assert not orders.is_late("c", 1)
    assert not orders.is_late("a", 4)  # not known any more; now "b" is not
    assert not orders.is_late("b", 7)
