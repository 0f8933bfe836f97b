"""A day of a broker's life in minutes: the clock is set by hand, the database is real.

`life.py` is what the clients do, `meters.py` what is measured meanwhile, `test_soak.py` what must stay flat.
"""
