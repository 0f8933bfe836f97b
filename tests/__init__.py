"""Tests. A package of its own, because some libraries install a package of the same name."""
