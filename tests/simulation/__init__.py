import os

os.environ.setdefault("PYBROKER_INVARIANTS", "all")  # before anything of pybroker is imported
