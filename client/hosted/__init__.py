"""The client for programs that do not run on trio: under asyncio, and in plain threads.

The same producer and consumer as elsewhere run in a thread with a trio loop (`trio_thread`). A
`Host` keeps one of them there, and the classes in `asyncio_clients` and `blocking_clients` pass
calls to it.
"""
