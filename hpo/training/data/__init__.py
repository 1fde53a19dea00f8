"""Image sets in three layers: `source` reads, `transform` scales, `batch` hands out.

`prepare` decodes and divides a set once, `store` keeps it, `card` describes it, `dataset` loads it
for a trial: `resident` on the device, or `streaming` from disk.
"""
