"""Where data sets are looked for, and how a file is downloaded when somebody asks for it.

Knows nothing about formats or contents.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from breakeven.errors import UserError

SYSTEM_DATA = Path("/usr/share/datasets")  # where Debian's dataset-* packages put theirs
TIMEOUT_S = 60.0  # seconds without a byte


def data_dir() -> Path:
    """$BREAKEVEN_DATA, else ~/.cache/breakeven/data; it may not exist yet."""
    named = os.environ.get("BREAKEVEN_DATA")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "breakeven" / "data"


def cache_dir() -> Path:
    """$BREAKEVEN_CACHE, else ~/.cache/breakeven; it may not exist yet."""
    named = os.environ.get("BREAKEVEN_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "breakeven"


def places(name: str, root: Path | None = None) -> list[Path]:
    """Folders (or a file, where `root` is one) that may hold a data set, best first.

    A given `root` is the only one searched, so that a mistyped folder isn't silently replaced.
    """
    if root is not None:
        return [root / name, root]
    return [data_dir() / name, data_dir(), SYSTEM_DATA / name]


def download(url: str, target: Path) -> None:
    """Writes what `url` gives to `target`, whole or not at all. Raises UserError where it can't."""
    import urllib.request  # 50 ms with all it imports: not in a process that only times
    from http.client import HTTPException

    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response, part.open("wb") as file:
            shutil.copyfileobj(response, file)
            announced = response.headers.get("Content-Length")
        if announced is not None and part.stat().st_size != int(announced):
            raise OSError(f"connection lost after {part.stat().st_size} of {announced} bytes")
        os.replace(part, target)
    except (OSError, HTTPException) as error:  # URLError is an OSError
        raise UserError(f"can't download {url} ({error}); get it elsewhere, put it at {target}") from error
    finally:
        part.unlink(missing_ok=True)
