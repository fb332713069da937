"""THE PIPELINE in one process: source, score, maintain, emit; `pipeline.py` joins them."""
