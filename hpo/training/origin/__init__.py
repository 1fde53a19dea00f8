"""Where images come from, and what is known of them before a pixel is read. Standard library only.

A sweep file is checked from here: a folder is listed, a header is read, no framework is imported.
"""
