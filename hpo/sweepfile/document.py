"""YAML text -> a tree of nodes that know where they are written.

Of YAML this takes mappings, lists and scalars, and anchors within bounds. It refuses tags,
directives, merge keys, repeated keys and more than one document, because each of them can make a
file mean something other than it seems to.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from hpo.domain.search_space import Value
from hpo.sweepfile.problem import Place, Problems, SweepFileError
from hpo.sweepfile.scalar import resolve

MOST_CHARACTERS = 1_000_000
MOST_NODES = 20_000
"""With aliases expanded: an alias bomb is a small file with a huge tree."""
MOST_DEPTH = 16
LONGEST_KEY = 200

_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarNode:
    """One value."""

    place: Place
    text: str
    """As written, without quotes."""
    value: Value | None
    """None for nothing at all, or `null`."""
    is_quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    """A list."""

    place: Place
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingNode:
    """Keys and values, in the order written. Its place is that of the key that holds it."""

    place: Place
    entries: "Mapping[str, Node]"


Node = ScalarNode | ListNode | MappingNode


def compose(text: str, *, file: str, problems: Problems) -> Node:
    """Read one YAML document.

    Args:
        text: the whole file.
        file: its name for messages.
        problems: gets what is wrong but does not hinder reading on.

    Raises:
        SweepFileError: the text is not one YAML document.
    """
    return _compose(text, lambda line: Place(file, line), problems)


def compose_value(text: str, *, place: Place, problems: Problems) -> Node:
    """Read a value that stands on its own, such as that of `--set key=value`.

    Raises:
        SweepFileError: the text is not one YAML value.
    """
    return _compose(text, lambda _: place, problems)


def index_places(node: Node, path: str = "") -> Iterator[tuple[str, Place]]:
    """Yield every key path of a document with its place: `vary.lr.low`, `vary.lr[2]`."""
    yield path, node.place
    if isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield from index_places(item, f"{path}[{index}]")
    elif isinstance(node, MappingNode):
        for key, value in node.entries.items():
            yield from index_places(value, f"{path}.{key}" if path else key)


def _compose(text: str, place_of: Callable[[int], Place], problems: Problems) -> Node:
    if len(text) > MOST_CHARACTERS:
        raise SweepFileError(
            f"{place_of(1)}: has {len(text)} characters, at most {MOST_CHARACTERS} are read;"
            " this does not look like a sweep file"
        )
    unprintable = _UNPRINTABLE.search(text)
    if unprintable is not None:
        line = text.count("\n", 0, unprintable.start()) + 1
        raise SweepFileError(
            f"{place_of(line)}: has the unprintable character {unprintable.group()!a}, remove it"
        )
    try:
        return _Composer(yaml.SafeLoader(text), place_of, problems).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise SweepFileError(f"{place_of(line)}: {_explain(error)}") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise SweepFileError(
            f"{place_of(1)}: has an escape or directive that YAML does not know;"
            " write plain keys and values"
        ) from None


_EXPLANATIONS = (
    ("character '\\t'", "has a tab where YAML wants spaces, indent with spaces"),
    (
        "could not find expected ':'",
        "is not 'key: value', write a colon and a space",
    ),
    ("mapping values are not allowed", "has a ': ' too many, put the text in quotes"),
    ("unexpected end of stream", "has a quote that is never closed, close it"),
    ("expected ',' or ']'", "has a list that is not closed, write a comma or ]"),
    ("expected ',' or '}'", "has a mapping that is not closed, write a comma or }"),
    ("unknown escape character", "has a backslash that YAML does not know, use single quotes"),
    ("cannot start any token", "starts a value with a reserved character, put it in quotes"),
    ("expected <block end>", "is not indented like the lines above it, align it with them"),
    ("block sequence entries are not allowed", "has a '- ' where no list can begin, start a line"),
)


def _explain(error: yaml.MarkedYAMLError) -> str:
    said = error.problem or "something unexpected"
    for fragment, explanation in _EXPLANATIONS:
        if fragment in said:
            return explanation
    return f"is not valid YAML ({said}), check quotes, brackets and indentation around this line"


class _Composer:
    """Builds the tree from PyYAML's events; its own resolver would speak YAML 1.1."""

    def __init__(
        self, loader: yaml.SafeLoader, place_of: Callable[[int], Place], problems: Problems
    ) -> None:
        self._loader: Any = loader
        self._place_of = place_of
        self._problems = problems
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._num_nodes = 0

    def document(self) -> Node:
        self._next(yaml.StreamStartEvent)
        if self._loader.check_event(yaml.StreamEndEvent):
            raise SweepFileError(f"{self._place_of(1)}: is empty, write baseline and vary")
        start = self._next(yaml.DocumentStartEvent)
        if start.tags:
            self._refuse(start, "has a %TAG directive, tags are not allowed, remove it")
        node = self._node(None, 0)
        self._next(yaml.DocumentEndEvent)
        if not self._loader.check_event(yaml.StreamEndEvent):
            self._refuse(
                self._loader.peek_event(), "begins a second document (---), write one file a study"
            )
        return node

    def _next(self, kind: type[Any]) -> Any:
        event = self._loader.get_event()
        if not isinstance(event, kind):  # cannot happen after the reader's own checks
            raise SweepFileError(f"{self._place_of(1)}: is not valid YAML")
        return event

    def _place(self, event: Any) -> Place:
        return self._place_of(event.start_mark.line + 1)

    def _refuse(self, event: Any, message: str) -> NoReturn:
        raise SweepFileError(f"{self._place(event)}: {message}")

    def _node(self, key_place: Place | None, depth: int) -> Node:
        """Read one node; a list or mapping is placed at the key that holds it."""
        event = self._loader.get_event()
        if depth > MOST_DEPTH:
            self._refuse(event, f"is nested more than {MOST_DEPTH} deep, write it flatter")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            self._refuse(event, f"has the tag {event.tag[:60]!r}, tags are not allowed, remove it")
        if event.anchor in self._anchors:
            self._refuse(event, f"names the anchor &{event.anchor} a second time, rename one")
        before = self._num_nodes
        self._count(event, 1)
        place = self._place(event)
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = ListNode(place=key_place or place, items=tuple(self._items(depth)))
        else:
            node = MappingNode(place=key_place or place, entries=self._entries(depth))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._num_nodes - before)
        return node

    def _count(self, event: Any, num_nodes: int) -> None:
        self._num_nodes += num_nodes
        if self._num_nodes > MOST_NODES:
            self._refuse(event, f"makes more than {MOST_NODES} values, aliases counted in full")

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            self._refuse(
                event, f"uses *{event.anchor}, which is not complete above, write &{event.anchor}"
            )
        node, num_nodes = self._anchors[event.anchor]
        self._count(event, num_nodes)
        return node

    def _scalar(self, event: Any) -> ScalarNode:
        place, text, is_quoted = self._place(event), self._text(event), event.style is not None
        value: Value | None = text
        if not is_quoted:
            try:
                value = resolve(text)
            except ValueError as error:
                self._problems.add_unsure(place, "", str(error))
        return ScalarNode(place=place, text=text, value=value, is_quoted=is_quoted)

    def _text(self, event: Any) -> str:
        text: str = event.value
        if _SURROGATE.search(text):  # JSON writes characters beyond 16 bits as two escapes
            try:
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            except UnicodeDecodeError:
                self._refuse(event, "has half of a character (a lone surrogate), remove it")
        control = _CONTROL.search(text)
        if control is not None:
            self._refuse(event, f"has the control character {control.group()!a}, remove it")
        return text

    def _items(self, depth: int) -> Iterator[Node]:
        while not self._loader.check_event(yaml.SequenceEndEvent):
            yield self._node(None, depth + 1)
        self._loader.get_event()

    def _entries(self, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        places: dict[str, Place] = {}
        while not self._loader.check_event(yaml.MappingEndEvent):
            key, place = self._key()
            value = self._node(place, depth + 1)
            if key in entries:
                message = f"is written twice, first at {places[key]}, remove one"
                self._problems.add_unsure(place, key, message)
                continue
            entries[key], places[key] = value, place
        self._loader.get_event()
        return entries

    def _key(self) -> tuple[str, Place]:
        event = self._loader.get_event()
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, "has a key that is not plain text, write 'key: value'")
        if event.tag is not None or event.anchor is not None:
            self._refuse(event, "has a tag or an anchor on a key, remove it")
        key = self._text(event)
        if key == "<<":
            self._refuse(event, "merges with <<, which hides keys, write the keys out")
        if not key or len(key) > LONGEST_KEY:
            self._refuse(event, f"has an empty or very long key, write 1 to {LONGEST_KEY} letters")
        return key, self._place(event)
