"""Commands on a data folder: `verify`, `backup`, `restore` and `zones` (`command`), `leases`, `bench`."""
