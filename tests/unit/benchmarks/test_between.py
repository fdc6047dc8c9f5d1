"""What happens between readable and answered is read from the system calls that perf has noted."""

from __future__ import annotations

from benchmarks.between import Call, Step, read_calls, requests_of, steps_of

NAMES = {232: "epoll_wait", 45: "recvfrom", 18: "pwrite64", 44: "sendto"}
# As perf script writes them: thread, seconds, event. The second request has an index entry, too.
LINES = """\
  71  10.000000000: raw_syscalls:sys_enter: NR 232 (25, 7f, 200, 1, 0, 8)
  72  10.000000500: raw_syscalls:sys_exit: NR 202 = 0
  71  10.000001000: raw_syscalls:sys_exit: NR 232 = 1
  71  10.000003000: raw_syscalls:sys_enter: NR 45 (2c, 7f, 800, 0, 0, 0)
  72  10.000003500: raw_syscalls:sys_enter: NR 202 (7f, 0, 0, 0, 0, 0)
  71  10.000004000: raw_syscalls:sys_exit: NR 45 = 98
  71  10.000008000: raw_syscalls:sys_enter: NR 18 (2b, 7f, 64, 0, 0, 0)
  71  10.000010000: raw_syscalls:sys_exit: NR 18 = 100
  71  10.000013000: raw_syscalls:sys_enter: NR 44 (2c, 7f, 20, 0, 0, 0)
  71  10.000020000: raw_syscalls:sys_exit: NR 44 = 32
  71  10.000022000: raw_syscalls:sys_enter: NR 232 (25, 7f, 200, 1, 0, 8)
  72  10.000022500: raw_syscalls:sys_exit: NR 202 = 0
  71  10.000030000: raw_syscalls:sys_exit: NR 232 = 1
  71  10.000031000: raw_syscalls:sys_enter: NR 45 (2c, 7f, 800, 0, 0, 0)
  71  10.000032000: raw_syscalls:sys_exit: NR 45 = 98
  71  10.000033000: raw_syscalls:sys_enter: NR 18 (2b, 7f, 64, 0, 0, 0)
  71  10.000034000: raw_syscalls:sys_exit: NR 18 = 100
  71  10.000034100: raw_syscalls:sys_enter: NR 18 (2d, 7f, 8, 0, 0, 0)
  71  10.000034200: raw_syscalls:sys_exit: NR 18 = 8
  71  10.000035000: raw_syscalls:sys_enter: NR 44 (2c, 7f, 20, 0, 0, 0)
  71  10.000036000: raw_syscalls:sys_exit: NR 44 = 32
  71  10.000037000: raw_syscalls:sys_enter: NR 232 (25, 7f, 200, 1, 0, 8)
  71  10.000038000: raw_syscalls:sys_exit: NR 232 = 1
""".splitlines()


def test_the_usual_requests_are_found_and_what_is_between_their_calls_is_ours() -> None:
    calls = [call for thread, call in read_calls(LINES, NAMES) if thread == 71]
    assert [call.name for call in calls][:4] == ["epoll_wait", "recvfrom", "pwrite64", "sendto"]
    [request] = requests_of(calls)  # the one without an index entry
    assert request[0] == Call("epoll_wait", 10.0, 10.000001)
    steps = [
        step._replace(microseconds=round(step.microseconds, 3)) for step in steps_of([request])
    ]
    assert steps == [
        Step("whose turn it is", True, 2.0),
        Step("recvfrom", False, 1.0),
        Step("which request, checks, offset", True, 4.0),
        Step("pwrite64", False, 2.0),
        Step("indexes, answer", True, 3.0),
        Step("sendto", False, 7.0),
        Step("metrics, who is next", True, 2.0),
    ]


def test_a_call_that_began_before_is_left_out() -> None:
    assert [call.name for thread, call in read_calls(LINES, NAMES) if thread == 72] == ["call 202"]
