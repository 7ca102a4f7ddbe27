"""What Claude Desktop starts from the bundle: `mulligan -C PROJECT mcp`."""

from mulligan.cli import process

if __name__ == "__main__":
    process()
