"""RSP-QL: continuous SPARQL over windows of triples, with data elsewhere joined by SERVICE."""
