"""How fast history is read through Arrow Flight, and what a client of the broker notices of it."""
