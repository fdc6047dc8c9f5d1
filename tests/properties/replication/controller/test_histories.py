"""Random histories of brokers, topics and controllers, in random order.

At every write: one leader an epoch, leader in the ISR, ISR of replicas, epochs never back, clean
elections, only the present controller writes. When everything has settled: whoever can lead does,
deleted topics are gone unless a replica is dead or a reassignment waits, reassignments whose
targets are in sync are over, and all brokers agree with ZooKeeper.
"""

from random import Random

from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from tests.support.controller_simulation import Simulation

HISTORY_LENGTH = 60
STEPS_BETWEEN = 12
CATCH_UP_ROUNDS = 3


def act(simulation: Simulation, random: Random) -> None:
    """One thing that people, processes or networks do to a cluster."""
    up = list(simulation.brokers)
    down = [b for b in simulation.broker_ids if b not in simulation.brokers]
    topics = simulation.topics()
    choices = [simulation.create_topic]
    if down:
        choices += [lambda: simulation.start_broker(random.choice(down))] * 3
    if up:
        choices.append(lambda: simulation.kill_broker(random.choice(up)))
        choices.append(lambda: simulation.shut_down(random.choice(up)))
        choices.append(simulation.move_controller)
        choices += [simulation.change_isr] * 4
        alive = [b for b in up if simulation.nodes[b].session_alive]
        if alive:
            choices.append(lambda: simulation.expire_session(random.choice(alive)))
    if topics:
        choices.append(lambda: simulation.delete_topic(random.choice(topics)))
        choices.append(lambda: simulation.grow_topic(random.choice(topics)))
        choices += [lambda: simulation.reassign(random.choice(topics))] * 3
        choices += [simulation.catch_up, simulation.elect]
    random.choice(choices)()


def run_history(random: Random, *, unclean: bool) -> Simulation:
    simulation = Simulation(random, random.randint(1, 4), unclean=unclean)
    for broker_id in simulation.broker_ids:
        simulation.start_broker(broker_id)
    for _ in range(HISTORY_LENGTH):
        act(simulation, random)
        for _ in range(random.randint(0, STEPS_BETWEEN)):
            steps = simulation.steps()
            if steps:
                simulation.step(random.choice(steps))
    simulation.settle()
    return simulation


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), unclean=st.booleans())
@example(seed=10093425, unclean=True)  # the last ISR member is reassigned away, then a deletion
@example(seed=267557, unclean=True)  # a replaced controller goes on deleting what is gone
def test_histories(seed: int, unclean: bool) -> None:
    simulation = run_history(Random(seed), unclean=unclean)
    note("\n".join(simulation.trace))
    simulation.check_converged()
    illegal = [n.controller.illegal_transitions for n in simulation.nodes.values()]
    assert simulation.illegal_transitions + sum(illegal) == 0


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
@example(seed=707195)  # a controller dies before a replica that was removed leaves the ISR
def test_with_all_brokers_back_everything_is_served(seed: int) -> None:
    simulation = run_history(Random(seed), unclean=False)
    for broker_id in simulation.broker_ids:
        if broker_id in simulation.brokers:
            simulation.kill_broker(broker_id)
    simulation.settle()
    for broker_id in simulation.broker_ids:
        simulation.start_broker(broker_id)
    simulation.settle()
    for _ in range(CATCH_UP_ROUNDS):
        simulation.catch_up()
        simulation.settle()
    note("\n".join(simulation.trace))
    simulation.check_converged()
    (controller,) = [n.controller for n in simulation.nodes.values() if n.controller.is_active]
    assert controller.context.counts()["OfflinePartitionsCount"] == 0
    assert controller.context.topics_to_be_deleted == set()
    assert controller.context.partitions_being_reassigned == set()
