"""Top-k joined with remote data that changes: replica, budget, refresh policies, Topk+N."""
