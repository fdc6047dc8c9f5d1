"""A broker's tables of topics: which ones it keeps, and the process that writes them."""
