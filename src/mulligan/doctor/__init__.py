"""Checking and repairing a store, and removing a path from all of its history."""
