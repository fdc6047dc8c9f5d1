"""The permissions that each request needs, and the guard that checks them.

`table` has a row for each API; `guard` runs before the handlers and applies the rows. The
authorizer is in `security`. A handler checks with `request.permits` what the guard cannot check
before it; the row of its API says so.
"""
