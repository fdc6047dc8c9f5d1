"""Samples of perf by what the processor was in."""

from __future__ import annotations

import pytest

from benchmarks.shares import Sample, flame_stacks, read_samples, row_of, shares_of

LINES = """
        ffffffff8223e0e3 tcp_sendmsg+0x10 ([kernel.kallsyms])
        ffffffff816261c9 __x64_sys_writev ([kernel.kallsyms])
        ffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
                  1e6a77 _PyEval_EvalFrameDefault+0x7 (/usr/lib/libpython3.11.so.1.0)

        ffffffff8223e0e3 clear_page_erms ([kernel.kallsyms])
        ffffffff816261c9 asm_exc_page_fault ([kernel.kallsyms])

                  1e6a77 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

                    7f58 CPyDef_check (/x/pybroker_record_loops__mypyc.cpython-311.so)

                    7f58 _crc32c_hw (/x/_crc32c.cpython-311.so)
        ffffffff81628483 schedule ([kernel.kallsyms])
"""


def test_a_sample_belongs_to_what_is_innermost() -> None:
    assert list(read_samples(LINES.splitlines())) == [
        Sample("kernel: writev", "tcp_sendmsg"),
        Sample("kernel: page faults", "clear_page_erms"),
        Sample("interpreter", "_PyEval_EvalFrameDefault"),
        Sample("compiled modules", "CPyDef_check"),
        Sample("CRC-32C", "_crc32c_hw"),
    ]


@pytest.mark.parametrize(
    ("library", "part"),
    [
        ("/usr/lib/libc.so.6", "libc"),
        ("/usr/lib/libcrypto.so.3", "TLS"),
        ("/x/lib/python3.11/lib-dynload/_struct.cpython-311.so", "interpreter"),
        ("/x/python3.11/site-packages/crc32c/_crc32c.cpython-311.so", "CRC-32C"),
        ("/x/python3.11/lib-dynload/_ssl.cpython-311.so", "TLS"),
        ("/x/python3.11/site-packages/zstandard/_cffi_backend.so", "zstd"),
        ("/x/one.thing.so", "one"),
        ("/lib/modules/ext4.ko", "kernel: the rest"),
    ],
)
def test_libraries_have_names(library: str, part: str) -> None:
    assert [one.part for one in read_samples([f"  7f58 work ({library})"])] == [part]


def test_shares_are_of_all_samples_and_functions_are_not_the_kernels() -> None:
    found = shares_of(read_samples(LINES.splitlines()))
    assert found.samples == 5
    assert dict(found.parts)["interpreter"] == 20
    assert dict(found.functions) == {
        "_PyEval_EvalFrameDefault": 20,
        "CPyDef_check": 20,
        "_crc32c_hw": 20,
    }
    row = row_of("small", {"requests/s": 1234.5}, found)
    assert row.startswith("| `small` | requests/s 1,234.5 | 40 | kernel: writev 20")


def test_a_flame_has_our_functions_and_what_they_were_in() -> None:
    stack = """
                  10abaa __libc_send (inlined)
        ffffffff8223e0e3 tcp_sendmsg ([kernel.kallsyms])
        ffffffff816261c9 __x64_sys_sendto ([kernel.kallsyms])
                  1e6a77 _PyEval_EvalFrameDefault+0x7 (/usr/lib/libpython3.11.so.1.0)
                    7f58 CPyDef_send_queue___SendQueue____send_buffers+0x1 (/x/y__mypyc.so)
                    7f59 CPyDef_request_handler_pool___RequestHandlerPool___run (/x/y__mypyc.so)
                  1e6a77 _PyEval_EvalFrameDefault+0x7 (/usr/lib/libpython3.11.so.1.0)

                    7f58 CPyDef_loops___check (/x/y__mypyc.so)
"""
    assert flame_stacks(stack.splitlines()) == {
        (
            "RequestHandlerPool.run (broker/network/request_handler_pool.py)",
            "SendQueue._send_buffers (broker/network/send_queue.py)",
            "kernel: sendto",
            "tcp_sendmsg",
        ): 1,
        ("check (loops)", "compiled modules"): 1,
    }


def test_no_samples_have_no_shares() -> None:
    assert shares_of([]).parts == []
