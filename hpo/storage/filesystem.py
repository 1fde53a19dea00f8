"""Recognising network file systems, on which SQLite's locks and shared memory do not hold."""

from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""Linux lists every mount here, with its type by name; elsewhere nothing is recognised."""

NETWORK_KINDS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs"}
    | {"beegfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone"}
)
"""Types of file systems whose files other machines may change."""


def network_filesystem(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the type of the network file system that a folder is on; None: it is local.

    Args:
        folder: need not exist yet; its nearest parent that does counts.
        mounts: in the form of `/proc/self/mountinfo`.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    kinds = dict(map(_mount, lines))  # what is mounted over another comes later
    place = folder.resolve()
    for path in (place, *place.parents):
        if path in kinds:
            kind = kinds[path]
            return kind if kind in NETWORK_KINDS else None
    return None


def _mount(line: str) -> tuple[Path, str]:
    """Return where a line of mountinfo mounts what type.

    Source: proc_pid_mountinfo(5); the fifth field is the mount point, with octal escapes, and the
    type follows the one field that is a lone hyphen.
    """
    before, _, after = line.partition(" - ")
    point = before.split()[4].encode().decode("unicode_escape").encode("latin-1").decode()
    return Path(point), after.split()[0]
