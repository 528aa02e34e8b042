"""Every random choice: pure functions of (seed, epoch, index)."""
