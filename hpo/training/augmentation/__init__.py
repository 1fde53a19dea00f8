"""Random variations of training images, batched on the device; `augmentation` puts them together.

Every number is drawn on the CPU from the augmentation stream, in the training process, so that
every device and any number of loader workers sees the same images, and a resumed training goes on
where the stream stood. Nothing here has a state of its own.
"""
