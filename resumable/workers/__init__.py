"""Threads, processes and executors that compute for the loop."""
