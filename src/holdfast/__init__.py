"""Holdfast: a durable MQTT broker. What it acknowledges is on disk."""

__version__ = "0.1.0"
