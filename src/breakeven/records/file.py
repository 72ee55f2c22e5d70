"""results.jsonl: append one line durably, read all of them, keep two runs off one folder.

Knows nothing about what the numbers mean. A torn last line is forgiven (a crash in mid-write). Any other line
that cannot be read is left out and kept by number for who only reads; who would add to the file is refused.
"""

import contextlib
import dataclasses
import io
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from breakeven.errors import UserError
from breakeven.records.blocks import Blocks, parse
from breakeven.records.canonical import canonical, to_json
from breakeven.records.case import Device, Tuning, Work
from breakeven.records.lines import (
    ADDED,
    KINDS,
    Attempt,
    Ceiling,
    Check,
    Fingerprint,
    Line,
    Load,
    ProfileLine,
    StudyLine,
)

NAME = "results.jsonl"
LOCK_NAME = "lock"
SHARED: Mapping[str, Any] = {
    "work": Work, "tuning": Tuning, "device": Device, "hashes": Mapping[str, str], "nulls": Mapping[str, str],
}  # fmt: skip
"""What the lines of a case have in common, and those of several cases: parsed once, and never changed."""
MANY = 4096
READ_AHEAD = 1 << 20
"""Bytes: a line is longer than what a file reads ahead by itself."""
MOST_FOLDERS = 3
MOST_NUMBERS, MOST_WHYS = 5, 2
"""Damaged lines, and reasons, that a message names."""
# Inside a text quotes would be escaped: where this stands, and where the list below, is a key with its value.
KIND = re.compile(rb'"kind":"(%b)"' % "|".join(KINDS).encode())
BLOCKS = re.compile(rb'\{"accuracy":[^][{}",]{1,32},"attempt":\d{1,9},"blocks":\[')


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """A line that is no record: its number in the file, and why."""

    number: int
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """All lines of one results file, in file order. `torn`: the last line was cut off and left out.

    `unread`: damaged lines before it, left out as well: what they measured is missing from every number.
    """

    path: str
    lines: tuple[Line, ...]
    torn: bool = False
    unread: tuple[Unread, ...] = ()

    @property
    def lost(self) -> int:
        """Lines that were in the file and are no record any more."""
        return len(self.unread) + self.torn

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(line for line in self.lines if isinstance(line, Attempt))

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(line for line in self.lines if isinstance(line, Check))

    @property
    def studies(self) -> tuple[StudyLine, ...]:
        return tuple(line for line in self.lines if isinstance(line, StudyLine))

    @property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        return tuple(line for line in self.lines if isinstance(line, Fingerprint))

    @property
    def loads(self) -> tuple[Load, ...]:
        return tuple(line for line in self.lines if isinstance(line, Load))

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        return tuple(line for line in self.lines if isinstance(line, Ceiling))

    @property
    def profiles(self) -> tuple[ProfileLine, ...]:
        return tuple(line for line in self.lines if isinstance(line, ProfileLine))


def encode(line: Line) -> bytes:
    """One line of the file, newline included. Raises ValueError for NaN and infinities."""
    value = to_json(line)
    unknown = value.pop("unknown", {})
    for *parts, name in ADDED if isinstance(line, Attempt) else ():
        owner = value
        for part in parts:
            owner = owner[part] or {}
        if name in owner and owner[name] in (None, []):
            del owner[name]
    return (canonical(unknown | value) + "\n").encode("ascii")


@lru_cache(maxsize=len(KINDS))
def _decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Parses and checks lines of a kind; refuses one with a field that the kind does not have."""
    cls, hints = KINDS[kind], get_type_hints(KINDS[kind])
    fields: list[tuple[str, Any, Any]] = []
    for f in dataclasses.fields(cls):
        if f.name != "unknown":
            none, factory = dataclasses.MISSING, f.default_factory
            value = msgspec.field(default_factory=factory) if factory is not none else f.default
            hint = msgspec.Raw if f.name in SHARED else hints[f.name]
            fields.append((f.name, hint, msgspec.NODEFAULT if value is none else value))
    # A struct as a stand-in: of a dataclass itself msgspec passes over fields that it does not have.
    stand_in = msgspec.defstruct(cls.__name__, fields, kw_only=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(stand_in)


@lru_cache(maxsize=MANY)
def _shared(key: str, text: bytes) -> Any:
    return msgspec.json.decode(text, type=SHARED[key])


@lru_cache(maxsize=len(KINDS))
def _adapter(kind: str) -> tuple[Any, frozenset[str]]:
    from pydantic import ConfigDict, TypeAdapter

    cls = KINDS[kind]
    cls.__pydantic_config__ = ConfigDict(extra="ignore", allow_inf_nan=False)
    return TypeAdapter(cls), frozenset(f.name for f in dataclasses.fields(cls))


def decode(text: str | bytes) -> Line:
    """One line of the file as its record. Unknown fields land in `unknown`.

    Raises ValueError with a short reason: not JSON, no known `kind`, a schema of another major version, a
    field of the wrong type, or a single call that took no time.
    """
    text, blocks = _blocks_apart(text) if isinstance(text, bytes) else (text, None)
    plain = _plain_line(text) if isinstance(text, bytes) else None
    line = _any_line(text) if plain is None else plain
    if isinstance(line, Attempt):
        if any(ns < 1 for ns in line.calls_ns):
            # Quantiles of single calls are taken on their logs.
            raise ValueError(f"field 'calls_ns': no call takes {min(line.calls_ns)} ns")
        if blocks:
            # Checked already, all at once: the validator would make an object of every block. Nobody has seen
            # the line yet, and a copy of it takes as long as a third of reading it.
            object.__setattr__(line, "blocks", blocks)
    return line


def _plain_line(text: bytes) -> Line | None:
    """A line of known fields, parsed and checked in one go; None for any other.

    Whoever gets None reads it by `_any_line`, which takes four times as long and says what is wrong with it.
    """
    kind = KIND.search(text)
    if kind is None:
        return None
    name = kind[1].decode("ascii")
    try:
        found = msgspec.structs.asdict(_decoder(name).decode(text))
        for key in SHARED:
            if key in found:
                found[key] = _shared(key, bytes(found[key]))
    except (ValueError, RecursionError):
        return None
    line: Line = KINDS[name](**found)
    return line if line.schema.startswith("1.") else None


def _any_line(text: str | bytes) -> Line:
    """A line of any kind, whatever fields a later version added. ValueError as `decode`."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ValueError("not a record: no 'kind'")
    if value["kind"] not in KINDS:
        raise ValueError(f"unknown kind {value['kind'][:40]!r}")
    schema = value.get("schema")
    if not isinstance(schema, str) or schema.split(".")[0] != "1":
        raise ValueError(f"schema {schema!r} is not one this version reads (1.x)")
    adapter, names = _adapter(value["kind"])
    known = {key: item for key, item in value.items() if key in names and key != "unknown"}
    known["unknown"] = {key: item for key, item in value.items() if key not in names}
    from pydantic import ValidationError

    try:
        line: Line = adapter.validate_python(known)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"field {where!r}: {first['msg']}") from error
    return line


def _blocks_apart(text: bytes) -> tuple[bytes, Blocks | None]:
    """An attempt's line without its blocks, and these: three quarters of a line, all of one form.

    Whatever is written otherwise stays in the line, and the blocks are None.
    """
    start = BLOCKS.match(text)
    if start is None:
        return text, None
    end = text.find(b"]", start.end())
    blocks = parse(text[start.end() : end]) if end > 0 else None
    return (text, None) if blocks is None else (text[: start.end()] + text[end:], blocks)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number a record may hold")


def read_text(data: bytes, source: str) -> Results:
    """All records of a file's bytes, as `read`. Raises UserError where no line is one."""
    return _read_lines(io.BytesIO(data), source)


def _read_lines(file: Iterable[bytes], source: str) -> Results:
    """All records, line by line: never the whole text of a large file at once."""
    lines: list[Line] = []
    unread: list[Unread] = []
    tail = b""
    for number, piece in enumerate(file, start=1):
        if not piece.endswith(b"\n"):
            tail = piece
            break
        if not piece.strip():
            continue
        try:
            lines.append(decode(piece))
        except (ValueError, UnicodeDecodeError) as error:
            unread.append(Unread(number=number, why=_why(error)))
    torn = False
    if tail.strip():
        # Only a line without its newline can be the work of a crash in mid-write.
        try:
            lines.append(decode(tail))
        except (ValueError, UnicodeDecodeError):
            torn = True
    if unread and not lines:
        first = unread[0]
        raise UserError(f"{source}: line {first.number} is damaged ({first.why}), or this is no results file")
    return Results(path=source, lines=tuple(lines), torn=torn, unread=tuple(unread))


def _why(error: Exception) -> str:
    return "not JSON" if isinstance(error, json.JSONDecodeError) else " ".join(str(error).split())[:160]


def left_out(unread: Sequence[Unread], name: str) -> str:
    """What a reader is told of damaged lines: "line 17 of results.jsonl cannot be read (why): left out"."""
    told = [str(line.number) for line in unread[:MOST_NUMBERS]]
    more = len(unread) - len(told)
    last = f"{more} more" if more else told.pop() if len(told) > 1 else ""
    numbers = ", ".join(told) + (f" and {last}" if last else "")
    reasons = list(dict.fromkeys(line.why for line in unread))
    why = "; ".join([*reasons[:MOST_WHYS], *(["..."] if len(reasons) > MOST_WHYS else [])])
    return f"line{'s' if len(unread) > 1 else ''} {numbers} of {name} cannot be read ({why}): left out"


def _folders_with_results(folder: Path) -> list[str]:
    """Folders in this one, or one level further, that hold results."""
    found = [str(file.parent) for depth in ("*", "*/*") for file in sorted(folder.glob(f"{depth}/{NAME}"))]
    return [name for name in found if name.isprintable()]


def locate(path: str | Path) -> Path:
    """The results file that a user's RESULTS names: the file itself, or results.jsonl in a folder."""
    here = Path(path)
    if here.is_dir():
        inside, here = here, here / NAME
        if not os.path.lexists(here) and (found := _folders_with_results(inside)):
            more = f" and {len(found) - MOST_FOLDERS} more" if len(found) > MOST_FOLDERS else ""
            named = ", ".join(found[:MOST_FOLDERS])
            raise UserError(f"no results at {path} itself: name one of the folders in it: {named}{more}")
    if not os.path.lexists(here):
        raise UserError(f"no results at {path}: run a study first, or name a folder with {NAME}")
    return here


def read_whole(path: Path) -> Results:
    """All records of a file that a run goes on with, none if there is no file yet. UserError as `read`.

    And where a line is damaged: what it held would be measured again beside it, or, if it named the machine,
    the study or a failure that settles a case, the run would go on as if that had never been.
    """
    results = _read_if_there(path)
    if results.unread:
        raise UserError(f"{damage(results)}; delete that line, restore the file, or begin anew with --fresh")
    return results


def damage(results: Results) -> str:
    """The first damaged line of a file, for who refuses it."""
    first = results.unread[0]
    return f"{results.path}: line {first.number} is damaged ({first.why})"


def _read_if_there(path: Path) -> Results:
    """All records of a file, none if there is no file yet. Raises UserError, one line, for anything else.

    What is no regular file is refused: a pipe would be waited for without end.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UserError(f"cannot read {path}: it is no regular file; move it away")
        with path.open("rb", buffering=READ_AHEAD) as file:
            return _read_lines(file, str(path))
    except FileNotFoundError:
        return Results(path=str(path), lines=())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def read(path: str | Path) -> Results:
    """Reads a results file or folder. Raises UserError, one line, if it is missing or cannot be read.

    Damaged lines are left out, and in `Results.unread`.
    """
    where = locate(path)
    results = _read_if_there(where)
    if not results.lines:
        raise UserError(f"{where} holds no results: it is empty or was cut off in its first line")
    return results


def append(path: Path, line: Line) -> None:
    """Adds one line and returns only when it is on the disk (fsync).

    A torn last line left by a crash is cut off first, so that the new line does not join it; a last line that
    is whole but for its newline is kept. Raises UserError if the disk is full or the folder is read-only.
    """
    data = encode(line)
    try:
        new = not path.exists()
        # Unbuffered: after a failed write nothing may be left in a buffer to be written later.
        with path.open("r+b" if not new else "x+b", buffering=0) as file:
            start = _end_of_whole_lines(file)
            file.seek(start)
            file.truncate()
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                # Leave no half line behind on a full disk: what was there before stays readable.
                with contextlib.suppress(OSError):
                    file.truncate(start)
                raise
        if new:
            _sync_folder(path.parent)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}; free space or choose another folder with -o"
        ) from error


def _end_of_whole_lines(file: Any) -> int:
    """Byte offset after the last whole line; adds the newline that a whole last line lacks."""
    size: int = file.seek(0, os.SEEK_END)
    if size == 0:
        return 0
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return size
    file.seek(0)
    data = file.read()
    start = data.rfind(b"\n") + 1
    try:
        decode(data[start:])
    except (ValueError, UnicodeDecodeError):
        return int(start)
    file.seek(size)
    file.write(b"\n")
    return size + 1


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def refuse_file(folder: Path) -> None:
    """UserError where a file has the name of the folder, or of one that it is to lie in."""
    for here in (folder, *folder.parents):
        with contextlib.suppress(OSError, ValueError):
            if here.is_dir():
                return
            if here.exists():
                raise UserError(f"{here} is a file, and results need a folder: choose another with -o")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder for one run, until the process ends. UserError if another run holds it."""
    import fcntl

    refuse_file(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(
            f"cannot write in {folder}: {error.strerror}; choose another folder with -o"
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"another run is writing to {folder}: wait for it, or choose another folder with -o"
            ) from error
        yield
    finally:
        os.close(fd)
