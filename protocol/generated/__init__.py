"""Written by `python -m tests.codecs`: see there."""
