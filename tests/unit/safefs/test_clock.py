"""The start of the machine has a name, and the kernel's own."""

from __future__ import annotations

from pathlib import Path

from mulligan.safefs.clock import boot_id


def test_the_start_of_the_machine_has_one_name():
    assert boot_id() == boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
