"""`pybroker log dump`: the files of a partition, in the form of kafka-dump-log.sh."""

from __future__ import annotations

import sys

import click

from .options import UserError

MAX_INT = 2**31 - 1
DEFAULT_MAX_MESSAGE_BYTES = 5 * 1024 * 1024


@click.group()
def log() -> None:
    """Inspect the files of a log directory.

    \b
    pybroker log dump --print-data-log users-0/00000000000000000000.log
    """


@log.command(
    epilog="""\b
Examples:
  pybroker log dump --deep-iteration users-0/00000000000000000000.log
  pybroker log dump --index-sanity-check users-0/*.index users-0/*.timeindex
  pybroker log dump --offsets-decoder __consumer_offsets-7/*.log
"""
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--files", "more_files", metavar="FILE,...", help="Files, separated by commas.")
@click.option("--deep-iteration", is_flag=True, help="Print records, not only batches.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too.")
@click.option(
    "--verify-index-only", is_flag=True, help="Check indexes without printing their entries."
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Check indexes only as far as a starting broker does.",
)
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state."
)
@click.option(
    "--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state."
)
@click.option(
    "--skip-record-metadata", is_flag=True, help="Print only the keys and values of records."
)
@click.option(
    "--max-bytes", type=int, default=MAX_INT, help="Read at most this many bytes of a log."
)
@click.option(
    "--max-message-size",
    type=int,
    default=DEFAULT_MAX_MESSAGE_BYTES,
    show_default=True,
    help="The largest batch that an index entry may point to.",
)
def dump(
    files: tuple[str, ...],
    more_files: str | None,
    deep_iteration: bool,
    print_data_log: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    share_group_state_decoder: bool,
    skip_record_metadata: bool,
    max_bytes: int,
    max_message_size: int,
) -> None:
    """Print segments, indexes and producer snapshots.

    FILES are .log, .index, .timeindex, .txnindex and .snapshot files. The output is that of Kafka's
    DumpLogSegments, line for line; errors go to standard error.

    \b
    pybroker log dump --print-data-log users-0/00000000000000000000.log
    """
    from .log_decoders import GroupRecords, PlainRecords, ShareStateRecords, TransactionRecords
    from .log_dump import Dump, DumpOptions

    names = [*files, *(more_files or "").split(",")] if more_files else list(files)
    if not names:
        raise UserError("name at least one file, for example users-0/00000000000000000000.log")
    decoder: PlainRecords | GroupRecords | TransactionRecords | ShareStateRecords = PlainRecords()
    if offsets_decoder:
        decoder = GroupRecords()
    elif transaction_log_decoder:
        decoder = TransactionRecords()
    elif share_group_state_decoder:
        decoder = ShareStateRecords()
    decodes = print_data_log or not isinstance(decoder, PlainRecords)
    options = DumpOptions(
        deep=deep_iteration or decodes,
        contents=decodes,
        metadata=not skip_record_metadata,
        verify_only=verify_index_only,
        sanity_only=index_sanity_check,
        max_bytes=max_bytes,
        max_message_bytes=max_message_size,
    )
    Dump(options, decoder, sys.stdout.write, sys.stderr.write).run(names)
