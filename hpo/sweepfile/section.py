"""Typed reading of nodes. Whatever does not fit is noted, and reading goes on with the default."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hpo.domain.search_space import Value
from hpo.domain.task import ConfigKey
from hpo.errors import did_you_mean
from hpo.sweepfile.document import ListNode, MappingNode, Node, ScalarNode
from hpo.sweepfile.key import LATER, key_names
from hpo.sweepfile.problem import Problems
from hpo.sweepfile.scalar import looks_numeric, suggest_number

_YES_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def show(value: Value) -> str:
    """Return a value as one would write it in the file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.12g}"


def describe(node: Node) -> str:
    """Return what a node is, for `is ...`."""
    if isinstance(node, ListNode):
        return "is a list"
    if isinstance(node, MappingNode):
        return "is a mapping"
    if node.value is None:
        return "is empty"
    if isinstance(node.value, str):
        shown = node.value if len(node.value) <= 60 else node.value[:57] + "..."
        return f"is the text {shown!r}"
    return f"is {show(node.value)}"


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of the file, being read. A wrong value is noted and read as its default."""

    node: MappingNode
    path: str
    """Its key path; empty for the top of the file."""
    problems: Problems

    def path_of(self, key: str) -> str:
        """Return the key path of one of its keys."""
        return f"{self.path}.{key}" if self.path else key

    def allow(self, section: str, only: Collection[str] | None = None) -> None:
        """Refuse keys that a section does not have.

        Args:
            section: a key of `hpo.sweepfile.key.SECTIONS`.
            only: those of the section's keys that fit here; None means all.
        """
        known = [name for name in key_names(section) if only is None or name in only]
        for key in self.node.entries:
            if key in known:
                continue
            if key in LATER.get(section, ()):
                message = "is not supported yet, remove it"
            elif key in key_names(section):
                message = f"does not fit here, remove it; what fits is {', '.join(known)}"
            else:
                near = did_you_mean(key, known)
                message = f"is not a known key{near or ', write one of ' + ', '.join(known)}"
            self.problems.add(self.path_of(key), message)

    def get(self, key: str) -> Node | None:
        """Return the node of a key, or None where the key is missing. Notes an empty one."""
        node = self.node.entries.get(key)
        if isinstance(node, ScalarNode) and node.value is None:
            self.problems.add(self.path_of(key), "is empty, write a value or remove the key")
            return None
        return node

    def section(self, key: str) -> "Section | None":
        """Return the section below a key; None where it is missing or no mapping."""
        node, path = self.get(key), self.path_of(key)
        if node is None:
            return None
        if isinstance(node, MappingNode):
            return Section(node, path, self.problems)
        self.problems.add(path, f"{describe(node)}, write a mapping of keys and values")
        return None

    def number(self, key: str) -> int | float | None:
        """Return a number; None where it is missing or wrong."""
        node = self.get(key)
        return None if node is None else read_number(node, self.path_of(key), self.problems)

    def integer(self, key: str, *, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`; None where it is missing or wrong."""
        node, path = self.get(key), self.path_of(key)
        if node is None:
            return None
        value = read_integer(node, path, self.problems)
        if value is not None and not low <= value <= high:
            self.problems.add(path, f"is {value}, must be {low} to {high}")
            return None
        return value

    def text(self, key: str) -> str | None:
        """Return text that is not empty; None where it is missing or wrong."""
        node = self.get(key)
        return None if node is None else read_text(node, self.path_of(key), self.problems)

    def word(self, key: str, allowed: Sequence[str]) -> str | None:
        """Return one of the allowed words; None where it is missing or wrong."""
        word, path = self.text(key), self.path_of(key)
        if word is not None and word not in allowed:
            self.problems.add(path, not_one_of(word, allowed))
            return None
        return word

    def flag(self, key: str) -> bool | None:
        """Return true or false; None where it is missing or wrong."""
        node = self.get(key)
        return None if node is None else read_flag(node, self.path_of(key), self.problems)


def not_one_of(word: str, allowed: Sequence[str]) -> str:
    """Return the message for a word that is none of the allowed ones."""
    return f"is {word[:60]!r}, must be one of {', '.join(allowed)}{did_you_mean(word, [*allowed])}"


def read_scalar(node: Node, path: str, problems: Problems) -> Value | None:
    """Return any single value; None, and a problem, where it is none."""
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.value
    problems.add(path, f"{describe(node)}, write one value")
    return None


def read_number(node: Node, path: str, problems: Problems) -> int | float | None:
    """Return a number; None, and a problem, where it is none."""
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    message = f"{describe(node)}, must be a number"
    if isinstance(node, ScalarNode) and isinstance(value, str):
        suggestion = suggest_number(value)
        if node.is_quoted and looks_numeric(value):
            message = f"is text because of the quotes, write {value} without quotes"
        elif suggestion is not None:
            message = f"{describe(node)}, write {suggestion}"
    problems.add(path, message)
    return None


def read_integer(node: Node, path: str, problems: Problems) -> int | None:
    """Return a whole number; None, and a problem, where it is none. `1e3` is one."""
    value = read_number(node, path, problems)
    if value is None or isinstance(value, int):
        return value
    if value.is_integer():
        return int(value)
    problems.add(path, f"is {show(value)}, must be a whole number")
    return None


def read_text(node: Node, path: str, problems: Problems) -> str | None:
    """Return text that is not empty; None, and a problem, where it is none."""
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, str) and value:
        return value
    if isinstance(node, ScalarNode) and value is not None:
        wanted = f'write "{node.text}" in quotes' if node.text else "write some text"
        problems.add(path, f"{describe(node)}, must be text, {wanted}")
    else:
        problems.add(path, f"{describe(node)}, must be text")
    return None


def read_flag(node: Node, path: str, problems: Problems) -> bool | None:
    """Return true or false; None, and a problem, where it is neither."""
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, bool):
        return value
    meant = _YES_NO.get(value.lower()) if isinstance(value, str) else None
    wanted = f"write {meant}" if meant else "must be true or false"
    problems.add(path, f"{describe(node)}, {wanted}")
    return None


def read_value(node: Node, path: str, key: ConfigKey | None, problems: Problems) -> Value | None:
    """Return a value of the kind that a task's key takes; None, and a problem, where it is none.

    Args:
        node: what is written.
        path: where it stands.
        key: the task's key; None takes any single value.
        problems: gets what is wrong.
    """
    if key is None:
        return read_scalar(node, path, problems)
    if key.default == "" and isinstance(node, ScalarNode) and node.value == "":
        return ""  # "none of them", where that can be said
    value: Value | None
    if key.kind == "int":
        value = read_integer(node, path, problems)
    elif key.kind == "float":
        number = read_number(node, path, problems)
        value = None if number is None else float(number)
    elif key.kind == "bool":
        value = read_flag(node, path, problems)
    elif key.kind == "bool or text":
        is_flag = isinstance(node, ScalarNode) and isinstance(node.value, bool)
        value = (read_flag if is_flag else read_text)(node, path, problems)
    else:
        value = read_text(node, path, problems)
    if value is not None and key.choices is not None and value not in key.choices:
        problems.add(path, not_one_of(show(value), [show(choice) for choice in key.choices]))
        return None
    return value
