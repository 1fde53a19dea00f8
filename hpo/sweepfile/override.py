"""`--set key=value`: values from the command line laid over those of the file."""

from collections.abc import Sequence

from hpo.domain.task import TaskSchema
from hpo.errors import did_you_mean
from hpo.sweepfile.document import MappingNode, Node, compose_value
from hpo.sweepfile.key import LATER, key_names
from hpo.sweepfile.problem import Place, Problems
from hpo.sweepfile.section import describe


def apply_overrides(
    root: MappingNode, overrides: Sequence[str], task: TaskSchema | None, problems: Problems
) -> MappingNode:
    """Return the document with each `key=value` laid over it, the last one winning.

    A key is a dotted path into the file; a key of the task alone means the baseline's.
    """
    for override in overrides:
        root = _apply(root, override, task, problems)
    return root


def _apply(
    root: MappingNode, override: str, task: TaskSchema | None, problems: Problems
) -> MappingNode:
    key, equals, text = override.partition("=")
    key = key.strip()
    place = Place(f"--set {key[:60]}=..")
    if not (equals and key and text.strip()) or "" in key.split("."):
        problems.add_at(
            Place(f"--set {key[:60]!a}"), "", "is not key=value, write --set epochs=2 for example"
        )
        return root
    path = _path(key, root, task)
    top = [*key_names(""), *LATER[""]]
    if path[0] not in top:
        keys = list(task.keys) if task is not None else []
        near = did_you_mean(key, [*key_names(""), *keys])
        problems.add_at(
            place, key, f"is neither a key of the file nor of the baseline{near or ', remove it'}"
        )
        return root
    value = compose_value(text, place=place, problems=problems)
    changed = _with(root, path, value, place)
    if isinstance(changed, str):
        problems.add_at(place, key, changed)
        return root
    return changed


def _path(key: str, root: MappingNode, task: TaskSchema | None) -> list[str]:
    """Split a dotted key where the document does; names of the baseline may contain dots."""
    baseline = root.entries.get("baseline")
    known = baseline.entries if isinstance(baseline, MappingNode) else {}
    head, _, rest = key.partition(".")
    if head not in key_names("") and ((task is not None and key in task.keys) or key in known):
        return ["baseline", key]
    if head == "baseline" and rest:
        return [head, rest]
    if head == "vary" and rest and (task is None or rest in task.keys):
        section = root.entries.get(head)
        if isinstance(section, MappingNode) and rest.split(".")[0] not in section.entries:
            return [head, rest]
    return key.split(".")


def _with(node: MappingNode, path: Sequence[str], value: Node, place: Place) -> MappingNode | str:
    """Return the mapping with one value replaced, or why that is impossible."""
    entries: dict[str, Node] = dict(node.entries)
    joined, head = ".".join(path), path[0]
    if joined in entries or len(path) == 1:
        entries[joined] = _placed(value, place)
    else:
        below = entries.get(head, MappingNode(place=place, entries={}))
        if not isinstance(below, MappingNode):
            return (
                f"cannot be set, {head} {describe(below)} in the file,"
                f" write --set '{head}={{{path[-1]}: ..}}' with all its keys"
            )
        changed = _with(below, path[1:], value, place)
        if isinstance(changed, str):
            return changed
        entries[head] = changed
    return MappingNode(place=node.place, entries=entries)


def _placed(value: Node, place: Place) -> Node:
    if isinstance(value, MappingNode):
        return MappingNode(place=place, entries=value.entries)
    return value
