"""All profiles there are at one moment, and what is wrong with the others."""

from __future__ import annotations

import tomllib
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Any

from silo_nb.errors import ProfileError
from silo_nb.profiles.checks import closest
from silo_nb.profiles.profile import DEMO, Profile
from silo_nb.profiles.sources import Source, read_trusted, sources, user_file
from silo_nb.profiles.tables import Permission, parse_permission, parse_profile

__all__ = ["Profiles", "load_profiles"]

_TABLES = ("profiles", "agents")


@dataclass
class _Reading:
    """What one file says.

    Attributes:
        unreadable: nothing of it is known, not even which profiles it defines.
        unknown: top-level tables nobody knows; the rest of the file stands.
        permission: what it says of the "agents" permission, which may be nonsense.
    """

    source: Source
    profiles: dict[str, Profile | ProfileError] = field(default_factory=dict)
    permission: Permission | ProfileError | None = None
    unreadable: ProfileError | None = None
    unknown: list[ProfileError] = field(default_factory=list)

    @property
    def problems(self) -> Iterator[ProfileError]:
        if self.unreadable:
            yield self.unreadable
        yield from self.unknown
        said = (self.permission, *self.profiles.values())
        yield from (each for each in said if isinstance(each, ProfileError))


class Profiles:
    """The profiles of one moment, read like a mapping from id to `Profile`.

    Iterating yields the ids that can be used. Unlike a mapping's, its look-ups explain a miss:
    `get` and ``[…]`` raise `ProfileError` with what is wrong and what to do.

    Attributes:
        problems: everything that is wrong in the files, as errors naming file, table and key.
    """

    def __init__(self, readings: tuple[_Reading, ...]) -> None:
        self._readings = readings
        self._usable = {DEMO.id: DEMO}
        self._broken: dict[str, ProfileError] = {}
        self.problems = tuple(problem for reading in readings for problem in reading.problems)
        self._collect()

    def _collect(self) -> None:
        """Let each id mean what the first file that may define it says."""
        unreadable: ProfileError | None = None
        for reading in self._readings:
            for profile_id, profile in reading.profiles.items():
                if profile_id in self._usable or profile_id in self._broken:
                    continue
                # A file nobody can read may have meant something else by this id: say so, rather
                # than start a program its reader did not ask for.
                outcome = unreadable or profile
                if isinstance(outcome, ProfileError):
                    self._broken[profile_id] = outcome
                else:
                    self._usable[profile_id] = outcome
            unreadable = unreadable or reading.unreadable

    @property
    def permission(self) -> Permission:
        """The "agents" permission: an administrator's word, else the user's, else ``"allow"``.

        Raises:
            ProfileError: a file that has a say cannot be understood. An administrator's file
                always has a say; a user's own has none while it cannot be read at all.
        """
        administrators_first = sorted(self._readings, key=lambda r: not r.source.administrator)
        for reading in administrators_first:
            if reading.unreadable and reading.source.administrator:
                raise _again(reading.unreadable)
            if reading.unknown:
                raise _again(reading.unknown[0])
            if isinstance(reading.permission, ProfileError):
                raise _again(reading.permission)
            if reading.permission is not None:
                return reading.permission
        return "allow"

    def get(self, profile_id: str) -> Profile:
        """Return the profile of that id.

        Raises:
            ProfileError: there is none, or it is broken; the message names file, table and key.
        """
        if profile_id in self._usable:
            return self._usable[profile_id]
        if profile_id in self._broken:
            raise _again(self._broken[profile_id])
        for reading in self._readings:
            for suspect in (reading.unreadable, *reading.unknown):
                if suspect is not None:
                    raise _again(suspect)
        raise ProfileError(
            f"There is no profile {profile_id!r}.{closest(profile_id, self._usable)} "
            f"There are: {', '.join(self._usable)}. Profiles are defined in {str(user_file())!r}."
        )

    def __getitem__(self, profile_id: str) -> Profile:
        return self.get(profile_id)

    def __contains__(self, profile_id: object) -> bool:
        return profile_id in self._usable

    def __iter__(self) -> Iterator[str]:
        return iter(self._usable)

    def __len__(self) -> int:
        return len(self._usable)

    def keys(self) -> KeysView[str]:
        """The ids that can be used."""
        return self._usable.keys()

    def values(self) -> ValuesView[Profile]:
        """The profiles that can be used."""
        return self._usable.values()

    def items(self) -> ItemsView[str, Profile]:
        """The ids that can be used, with their profiles."""
        return self._usable.items()

    def __repr__(self) -> str:
        broken = f", {len(self.problems)} problems" if self.problems else ""
        return f"<Profiles: {', '.join(self._usable)}{broken}>"


def load_profiles() -> Profiles:
    """Return the profiles as the files define them now.

    The files are read each time, so that an edit counts at the next connect. Nothing is raised
    for a broken file or table here: whoever asks for what is broken is told.

    >>> load_profiles().get("demo").label
    'Demo agent (offline)'
    """
    return Profiles(tuple(_read(source) for source in sources()))


def _read(source: Source) -> _Reading:
    reading = _Reading(source)
    try:
        document = _document(source)
    except ProfileError as error:
        reading.unreadable = error
        return reading
    file = source.file
    reading.unknown = [
        ProfileError(f"unknown table.{closest(name, _TABLES)}", file=file, table=name)
        for name in document
        if name not in _TABLES
    ]
    if "agents" in document:
        try:
            reading.permission = parse_permission(document["agents"], file)
        except ProfileError as error:
            reading.permission = error
    tables = document.get("profiles", {})
    if not isinstance(tables, dict):
        reading.unreadable = ProfileError(
            "must hold one table for each profile, such as [profiles.claude].",
            file=file,
            table="profiles",
        )
        return reading
    for profile_id, table in tables.items():
        try:
            reading.profiles[profile_id] = parse_profile(profile_id, table, file)
        except ProfileError as error:
            reading.profiles[profile_id] = error
    return reading


def _document(source: Source) -> Mapping[str, Any]:
    text = read_trusted(source.file)
    if text is None:
        return {}
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for a number too long to read
        raise ProfileError(f"is not valid TOML: {error}.", file=source.file) from error


def _again(error: ProfileError) -> ProfileError:
    """Return `error` ready to be raised once more: without the traceback of the last time."""
    return error.with_traceback(None)
