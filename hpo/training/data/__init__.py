"""Image sets: `prepare` decodes and divides them once, `card` describes, `resident` loads."""
