"""The text of a study to plain values that know their line; every fault is one line.

Knows nothing about which keys a study has. Scalars are read as in YAML 1.2: 1e-3 is a number, `no` is text.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from breakeven.errors import UserError

Path = tuple[str | int, ...]

MAX_BYTES = 100_000
MAX_DEPTH = 12
MAX_NODES = 10_000
"""Counted with every alias written out, which is what an anchor bomb multiplies."""
MAX_DIGITS = 30

_TAG = "tag:yaml.org,2002:"
_KINDS: dict[type[yaml.Node], str] = {yaml.SequenceNode: f"{_TAG}seq", yaml.MappingNode: f"{_TAG}map"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """The values of a study and where each was written: `file.yaml:3`, or the flag that set it."""

    values: dict[str, Any]
    where: dict[Path, str]


class _Loader(yaml.SafeLoader):
    """PyYAML's scanner and parser with the scalars of YAML 1.2 (JSON's numbers, only true and false)."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own protocol)


_NUMBER_STARTS = list("-+0123456789.")
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    f"{_TAG}bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(r"^[-+]?[0-9]+$"), _NUMBER_STARTS)
_Loader.add_implicit_resolver(
    f"{_TAG}float",
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    _NUMBER_STARTS,
)


def parse(text: str | bytes, source: str) -> Document:
    """A study's text as values with their places. Raises UserError, one line, for text that is no mapping."""
    source = one_line(source)
    node = _compose(_decoded(text, source), source, lines=True)
    if node is None:
        raise UserError(f"{source}: is empty; a study needs at least 'model'")
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{source}:1: is not a study: write 'key: value' lines, such as 'model: resnet18'")
    walk = _Walk(source=source, lines=True)
    values = walk.value(node, ())
    return Document(values=values, where=walk.where)


def parse_value(text: str, source: str) -> Any:
    """One YAML value, as a flag gives it. Raises UserError, one line, beginning with `source`."""
    source = one_line(source)
    node = _compose(_decoded(text, source), source, lines=False)
    return None if node is None else _Walk(source=source, lines=False).value(node, ())


def place(where: Mapping[Path, str], path: Iterable[str | int]) -> str:
    """Where the value at `path` was written, else the nearest value around it.

    An index that was not written is passed over: `model: x` stands for `model: [x]`.
    """
    here: Path = ()
    for part in path:
        if (*here, part) in where:
            here = (*here, part)
        elif not isinstance(part, int):
            break
    return where[here]


def nearest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the word that was meant, else all that are known."""
    words = list(known)
    near = difflib.get_close_matches(str(word)[:100].lower(), words, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(words)}"


def show(value: object) -> str:
    """A value in a message: short, on one line, with nothing that a terminal would act on."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(text: str) -> str:
    """The text on one line, without control characters, at most 400 characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:400]


def _decoded(text: str | bytes, source: str) -> str:
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: is too large for a study (more than {MAX_BYTES // 1000} kB)")
    if isinstance(text, bytes):
        if b"\0" in text:
            raise UserError(f"{source}: is a binary file, not a study")
        try:
            return text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            raise UserError(f"{source}:{line}: is not UTF-8 text; save the file as UTF-8") from error
    return text


def _compose(text: str, source: str, *, lines: bool) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, max(error.position, 0)) + 1
        at = f"{source}:{line}" if lines else source
        raise UserError(f"{at}: holds a character that text may not hold") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{source}:{mark.line + 1}" if lines and mark else source
        what = error.problem or error.context or "cannot be read"
        raise UserError(one_line(f"{at}: is not valid YAML: {what}")) from error
    except RecursionError as error:
        raise UserError(f"{source}: is nested too deeply for a study") from error
    except (ValueError, OverflowError) as error:  # an escape or a %YAML number outside what Python can hold
        raise UserError(one_line(f"{source}: is not valid YAML: {error}")) from error


@dataclass(kw_only=True, slots=True)
class _Walk:
    """Nodes to values. It notes each place, and stops at recursive or exploding aliases."""

    source: str
    lines: bool
    where: dict[Path, str] = field(default_factory=dict)
    nodes: int = 0

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.nodes += 1
        if len(path) > MAX_DEPTH:
            raise self.fault(node, "is nested too deeply for a study")
        if self.nodes > MAX_NODES:
            raise self.fault(node, f"is too large for a study (more than {MAX_NODES} values)")
        # A mapping's own line is its key's, which `mapping` notes first.
        self.where.setdefault(path, self.at(node))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if node.tag != _KINDS.get(type(node)):
            raise self.fault(node, f"tag {show(node.tag)} is not allowed in a study")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self.mapping(node, path)

    def mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise self.fault(key_node, "a key must be text")
            if key in out:
                raise self.fault(key_node, f"key {show(key)}: given twice")
            self.where[(*path, key)] = self.at(key_node)
            out[key] = self.value(value_node, (*path, key))
        return out

    def scalar(self, node: yaml.ScalarNode) -> Any:
        kind, text = node.tag.removeprefix(_TAG), self.text(node)
        try:
            if kind == "int" and len(text) <= MAX_DIGITS:
                return int(text)
            if kind == "float" and len(text) <= MAX_DIGITS:
                return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
        except ValueError as error:
            raise self.fault(node, f"{show(text)} is not a number") from error
        if kind in ("int", "float"):
            raise self.fault(node, f"a number of {len(text)} digits is too long")
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "null" and text.lower() in ("", "~", "null"):
            return None
        if kind != "str":
            raise self.fault(node, f"tag {show(node.tag)} is not allowed in a study")
        return text

    def text(self, node: yaml.ScalarNode) -> str:
        """The scalar's text. JSON writes a character beyond 16 bits as two escapes; YAML keeps them apart."""
        try:
            return str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise self.fault(node, "holds half a character") from error

    def at(self, node: yaml.Node) -> str:
        return f"{self.source}:{node.start_mark.line + 1}" if self.lines else self.source

    def fault(self, node: yaml.Node, text: str) -> UserError:
        return UserError(one_line(f"{self.at(node)}: {text}"))
