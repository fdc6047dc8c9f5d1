"""Which request asks which permission, and who sees to it that it is asked.

`table` has a row for each API; `guard` stands before the handlers and does what the rows say. Who
answers the questions is in `security`. What cannot be asked before the handler is asked by it, with
`request.permits`; its row says so.
"""
