"""Runs of a whole cluster in one process, every choice by a seed."""
