"""
Where an agent works: its files, its commands, and a way back.

`Environment` is the public protocol; `LocalEnvironment`, `GitEnvironment` and `DockerEnvironment` are the ones that come
with mulligan. The docker package is needed, and loaded, only when a `DockerEnvironment` is made.
"""

from mulligan.environments.base import CommandResult, Environment, TestResult
from mulligan.environments.docker import DockerEnvironment
from mulligan.environments.git import GitEnvironment
from mulligan.environments.local import LocalEnvironment

__all__ = ["CommandResult", "DockerEnvironment", "Environment", "GitEnvironment", "LocalEnvironment", "TestResult"]
