"""`python -m pybroker`: the command `pybroker`, for whoever starts it without a PATH."""

from .broker.cli.main import main

if __name__ == "__main__":
    main(prog_name="pybroker")
