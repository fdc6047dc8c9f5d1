"""The client for programs that do not run on trio: under asyncio, and in plain threads.

The same producer and consumer as elsewhere run in a thread with a trio loop (`trio_thread`). A
`Host` keeps one of them there, and the classes in `asyncio_*` and `blocking_*` pass calls
to it. Records of producers go by a shorter way (`outbox`).
"""
