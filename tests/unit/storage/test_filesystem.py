"""Network file systems are recognised by the mount that a folder is on."""

from pathlib import Path

import pytest

from hpo.storage.filesystem import network_filesystem

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/local rw - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/shared\040disk rw shared:3 master:1 - cifs //server/share rw
33 22 0:42 / /mnt/plan9 rw - 9p host rw
34 22 0:43 / /mnt/over rw - nfs server:/x rw
35 34 0:44 / /mnt/over rw - tmpfs tmpfs rw
36 22 0:45 / /mnt/ssh rw - fuse.sshfs user@host:/ rw
37 22 0:46 / /mnt/fuse rw - fuse.gocryptfs /x rw
""".strip()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/somewhere/deep", None),
        ("/home/me/project", "nfs4"),
        ("/home/local/runs", None),
        ("/homely", None),
        ("/mnt/shared disk/runs", "cifs"),
        ("/mnt/plan9", "9p"),
        ("/mnt/over/runs", None),
        ("/mnt/ssh/a/b", "fuse.sshfs"),
        ("/mnt/fuse/a", None),
    ],
)
def test_the_nearest_mount_counts(tmp_path: Path, folder: str, kind: str | None) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS + "\n")
    assert network_filesystem(Path(folder), mounts) == kind


def test_nothing_is_recognised_where_mounts_are_not_listed(tmp_path: Path) -> None:
    assert network_filesystem(Path("/home"), tmp_path / "none") is None


def test_the_mounts_of_this_machine_are_read(tmp_path: Path) -> None:
    assert network_filesystem(tmp_path) is None
