"""History by Arrow Flight: `protocol` is what both sides say, `server` and `client` the two sides."""
