"""
Beyond one machine: a timeline is pushed to storage that people already run, and picked up elsewhere.

One protocol (`protocol`), two kinds of storage: any git server (`gitserver`) and any S3-compatible object store (`bucket`).
This package starts git and talks to the network; the core below it does neither.
"""
