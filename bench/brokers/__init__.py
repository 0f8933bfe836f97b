"""Whole brokers measured: Holdfast and its peers under the same load, in one run."""
