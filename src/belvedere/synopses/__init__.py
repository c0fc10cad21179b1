"""Samples of joins too large to compute (SJoin): query tree, weighted join graph, reservoirs."""
