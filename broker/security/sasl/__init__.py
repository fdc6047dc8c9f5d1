"""How clients log in: the server side of each SASL mechanism, and the steps of a login."""
