"""The `resumable` command."""
