"""What a broker keeps beside its messages, as tables. `tables` lists them; each has its module."""
