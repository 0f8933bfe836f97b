"""The data folder beside its broker: `secondary` opens it, `view` lists its parts, `reader` reads them."""
