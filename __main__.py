"""The command `pybroker`, and `python -m pybroker_kafka` without a PATH.

From here on Ctrl-C ends it quietly, with what the shell shows as status 130: the system does it
while modules are imported, then `cli/main.py`. Only the interpreter's own start is earlier. Until
the command's modules are imported the garbage collector is off: what they make lives as long as the
process.
"""

import gc
import signal


def main() -> None:
    """Run the command that this process was started for."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    from .cli.main import main as command

    command(prog_name="pybroker")


if __name__ == "__main__":
    main()
