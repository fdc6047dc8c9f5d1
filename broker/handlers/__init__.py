"""The handlers: what this broker answers, API by API; docs/APIS.md says which file has which.

Beside them lie what several share: `leaders` (where a client is sent that asked the wrong broker),
`leadership_gate` (what a LeaderAndIsr has to wait for), `loggers` (log levels as configs),
`quick_answers` and `transactional_produce` (parts of Produce).
"""
