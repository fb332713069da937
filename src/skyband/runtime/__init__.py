"""What all operators share: sources, prepared rows, the pipeline, emitted rows, results, snapshots."""
