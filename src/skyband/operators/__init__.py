"""What runs on a stream: an operator for each kind of query, and the plan that chooses it."""
