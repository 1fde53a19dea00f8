import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


FILES = tracked_files()
PAGES = [path for path in FILES if path.suffix == ".md"]
SWEEPS = [path for path in FILES if path.parent == ROOT / "sweeps" and path.suffix == ".yaml"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the names that links into a page may use: its headings as a forge spells them."""
    headings = re.findall(r"^#+ +(.+?) *$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue  # another site: not this test's business
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](none.md) [d](page.md#one-two)\n")
    assert broken_links(page) == ["#three", "none.md"]


@pytest.mark.parametrize("sweep", SWEEPS, ids=name)
def test_every_shipped_sweep_is_a_yaml_mapping_that_varies_something(sweep: Path) -> None:
    assert "vary" in yaml.safe_load(sweep.read_text())


MACHINE_PATH = re.compile(
    "|".join(
        rf"(?<![\w.-])/{folder}/" for folder in ("work", "root", "tmp/w", "Users", "opt/pypi")
    )
)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_file_names_a_path_of_one_machine(path: Path) -> None:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        pytest.skip("not text")
    assert MACHINE_PATH.findall(text) == []


def test_a_path_of_one_machine_is_seen() -> None:
    assert MACHINE_PATH.search("see /" + "root/notes")
    assert not MACHINE_PATH.search("the file system's root/ and network/")


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.suffix == ".py" and name(p).startswith(("hpo/", "tracking/"))],
    ids=name,
)
def test_a_file_answers_one_question(path: Path) -> None:
    num_lines = len(path.read_text().splitlines())
    assert num_lines <= 400, f"{num_lines} lines; split it by question"


LOCKED = {
    line.split("==")[0]: line.split("==")[1].split(" ")[0]
    for lock in ("requirements.lock", "requirements-test.lock")
    for line in (ROOT / lock).read_text().splitlines()
    if re.match(r"[a-z0-9.-]+==", line)
}


@pytest.mark.parametrize(
    "requirement",
    [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ],
)
def test_the_lock_has_what_the_project_asks_for(requirement: str) -> None:
    wanted = Requirement(requirement)
    locked = LOCKED[wanted.name.lower()]
    assert wanted.specifier.contains(locked), "run `make lock`"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-test.lock"])
def test_everything_locked_has_hashes_and_no_place_of_its_own(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"--index-url|--find-links|--extra-index-url|file:", text) == []


def test_one_version_stands_everywhere() -> None:
    version = PROJECT["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    images = re.findall(r"image: hpo-\w+:(\S+)", (ROOT / "docker-compose.yml").read_text())
    assert set(images) == {version}
