"""Many queries over one stream: families that share one structure, and what the paper MTopS makes of them."""
