"""``silo-nb journal``: the sessions kept beside a notebook, without a kernel.

Nothing here starts an agent. Reading needs no lock, so a session that is open in a notebook can be
read and exported; only its owner may delete it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silo_nb.errors import SiloError
from silo_nb.model.text import one_line

if TYPE_CHECKING:
    from silo_nb.cli import Commands
    from silo_nb.journal import SessionFile

DETAIL_LINES = 20
"""Of what a tool gave back, this much is shown; an export has all of it."""

_TITLE_CHARS = 60
_AGENT_CHARS = 20


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    journal = commands.add_parser(
        "journal",
        help="list, read, export and delete the sessions kept beside notebooks",
        description="The sessions that are kept in .silo_nb beside a notebook.",
    )
    actions = journal.add_subparsers(dest="subcommand", required=True, metavar="ACTION")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        help="the notebook's directory (default: the current one)",
    )
    one = argparse.ArgumentParser(add_help=False, parents=[where])
    one.add_argument("id", help="the session's id as `list` shows it, or an id its agent gave it")

    listing = actions.add_parser("list", parents=[where], help="show what sessions there are")
    listing.set_defaults(action=_list)
    show = actions.add_parser("show", parents=[one], help="print a conversation")
    show.set_defaults(action=_show)
    export = actions.add_parser("export", parents=[one], help="write a session to a file")
    export.add_argument(
        "--to",
        choices=("md", "jsonl"),
        required=True,
        help="md: the conversation, for people; jsonl: every intact record, for programs",
    )
    export.add_argument(
        "--output", type=Path, metavar="FILE", help="a new file (default: standard output)"
    )
    export.set_defaults(action=_export)
    purge = actions.add_parser("purge", parents=[where], help="delete sessions for good")
    purge.add_argument("ids", nargs="+", metavar="id", help="as for `show`")
    purge.add_argument("--yes", action="store_true", help="do not ask")
    purge.set_defaults(action=_purge)


def _list(chosen: argparse.Namespace) -> int:
    from silo_nb.journal import list_sessions

    directory = _journals(chosen.dir)
    listing = list_sessions(directory)
    if listing:
        rows = [("ID", "LAST CHANGE", "TURNS", "SIZE", "AGENT", "TITLE"), *map(_row, listing)]
        print("\n".join(_table(rows)))
    else:
        print(f"no sessions in {directory}")
    for problem in listing.problems:
        _note(f"left out: {problem}")
    return 0


def _show(chosen: argparse.Namespace) -> int:
    from silo_nb.cli.conversation import as_text

    session, parts = _conversation(_found(_journals(chosen.dir), chosen.id))
    for name, value in _facts(session).items():
        print(f"{name}: {one_line(value)}")
    for line in as_text(parts, detail_lines=DETAIL_LINES):
        print(line)
    return 0


def _export(chosen: argparse.Namespace) -> int:
    path = _found(_journals(chosen.dir), chosen.id)
    lines = _as_jsonl(path) if chosen.to == "jsonl" else _as_markdown(path)
    if chosen.output is None:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
        return 0
    try:
        # As private as the journal, and nothing is overwritten.
        fd = os.open(chosen.output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SiloError(f"{str(chosen.output)!r} exists; choose another --output") from None
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(lines)
    except BaseException:
        chosen.output.unlink()  # half an export looks like a whole one
        raise
    return 0


def _purge(chosen: argparse.Namespace) -> int:
    from silo_nb.journal import describe_session, purge

    directory = _journals(chosen.dir)
    status = 0
    for path in [_found(directory, name) for name in chosen.ids]:
        session = describe_session(directory, path.stem)
        if chosen.yes or _is_confirmed(session):
            purge(directory, path.stem)
            print(f"deleted {path.stem}")
        else:
            print(f"kept {path.stem}")
            status = 1
    return status


def _is_confirmed(session: SessionFile) -> bool:
    _, changed, turns, size, _, title = _row(session)
    print(f"{session.id}: {title} ({turns} turns, {size}, last change {changed})")
    try:
        return input("Delete it for good? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _journals(notebook_dir: Path) -> Path:
    from silo_nb.journal import journal_directory

    if not notebook_dir.is_dir():
        raise SiloError(f"there is no directory {str(notebook_dir)!r}")
    return journal_directory(notebook_dir.absolute())


def _found(directory: Path, any_id: str) -> Path:
    from silo_nb.journal import find_session, list_sessions

    path = find_session(directory, any_id)
    if path is not None:
        return path
    known = [session.id for session in list_sessions(directory)]
    close = difflib.get_close_matches(any_id, known, 1)
    hint = f"did you mean {close[0]!r}?" if close else "`silo-nb journal list` shows what there is"
    raise SiloError(f"there is no session {any_id!r} in {str(directory)!r}; {hint}")


def _conversation(path: Path) -> tuple[SessionFile, Iterator[Any]]:
    from silo_nb.cli.conversation import sections
    from silo_nb.journal import RecordReader, describe_session
    from silo_nb.model import EMPTY_TRANSCRIPT, apply_update
    from silo_nb.session.records import read_updates

    session = describe_session(path.parents[1], path.stem, whole=True)
    reader = RecordReader(path)
    transcript = reduce(apply_update, read_updates(reader), EMPTY_TRANSCRIPT)
    if reader.bad_lines:
        _note(f"{reader.bad_lines} damaged lines of {path} were left out")
    return session, sections(transcript, session.agent_name)


def _as_markdown(path: Path) -> Iterator[bytes]:
    from silo_nb.cli.conversation import as_markdown

    session, parts = _conversation(path)
    title = session.title or session.opening or session.id
    for line in as_markdown(title, _facts(session), parts):
        yield line.encode() + b"\n"


def _as_jsonl(path: Path) -> Iterator[bytes]:
    from silo_nb.journal import RecordReader
    from silo_nb.journal.encoding import Encoder
    from silo_nb.journal.reader import read_beginning

    header = read_beginning(path).header
    reader = RecordReader(path)
    yield from map(Encoder().line, chain([header] if header else [], reader))
    if reader.bad_lines:
        _note(f"{reader.bad_lines} damaged lines of {path} were left out")


def _facts(session: SessionFile) -> Mapping[str, str]:
    """Return what is known of a session, by name; what is not known is left out."""
    facts = {
        "Session": session.id,
        "Title": session.title or "",
        "Agent": session.agent_name or session.profile_id,
        "Directory": session.cwd,
        "Begun": _local(session.created) if session.created else "",
        "Last change": _local(session.updated),
        "Carried from": session.carried_from or "",
    }
    return {name: value for name, value in facts.items() if value}


def _row(session: SessionFile) -> tuple[str, ...]:
    title = one_line(session.title or session.opening or "", _TITLE_CHARS)
    state = ""
    if session.owner is not None:
        state = f"(open in process {session.owner.pid} on {session.owner.host})"
    elif session.in_turn:
        state = "(ended in the middle of a turn)"
    return (
        session.id,
        _local(session.updated),
        "?" if session.turns is None else str(session.turns),
        _size(session.size),
        one_line(session.agent_name or session.profile_id, _AGENT_CHARS),
        " ".join(filter(None, (title, state))),
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _local(when: datetime) -> str:
    return when.astimezone().strftime("%Y-%m-%d %H:%M")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1_000:  # noqa: PLR2004 - of each unit, the next is a thousand
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} GB"


def _note(text: str) -> None:
    print(f"silo-nb: {one_line(text, 1_000)}", file=sys.stderr)
