"""What computes beside the loop: threads, processes and executors."""
