"""Reads everything that a data folder holds, and says precisely what is wrong with it (`folder.py`)."""
