"""The handlers of this broker's requests, API by API; docs/APIS.md lists the file of each.

Beside them are the modules that several share: `leaders` (the leader's address for a client that
asked the wrong broker), `loggers` (log levels as
configs), `quick_answers` and `transactional_produce` (parts of Produce).
"""
