"""Profiles: which agents a user has allowed to be started, and how.

A profile is written by a person, in a file only that person or an administrator can write. There
is no "connect to this command", and nothing in a notebook or a working directory can define one.
This package reads and checks; it starts nothing and knows nothing of processes or the wire.
"""

from __future__ import annotations

from silo_nb.profiles.profile import DEMO, Profile
from silo_nb.profiles.registry import Profiles, load_profiles
from silo_nb.profiles.sources import user_file

__all__ = ["DEMO", "Profile", "Profiles", "load_profiles", "user_file"]
