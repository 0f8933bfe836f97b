"""Settings of a node. Programs that embed a broker make `Settings` themselves, or call `loader.load`.

tree        every key with its type, its default and its description; the sections of queues are in `queue_sections`
sources     where values come from: a TOML file, the environment, flags
values      a value from outside turned into the type of its key
loader      all sources, one after the other; the last one wins
rules       what no single value can tell; rules of single sections are in `section_rules`
zones       zones as the log knows them, made from settings
"""

from holdfast.node.settings.tree import Listener, Log, Security, Settings, Storage, Sys, ZoneSettings

__all__ = ["Listener", "Log", "Security", "Settings", "Storage", "Sys", "ZoneSettings"]
