"""Reports of benchmarks: text, charts and page, from the record alone."""
