"""The engine against kill -9, power loss, damaged bytes and full disks, on real files."""
