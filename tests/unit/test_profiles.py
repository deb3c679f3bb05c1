"""Profiles: who may define one, what a file may say, and what is said about one that is wrong.

R1 to R3 and FAULTS T3: twelve files, each in every mode, ownership and disguise it could have.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_core import paths

from silo_nb.errors import ProfileError
from silo_nb.profiles import DEMO, Profile, load_profiles, user_file
from silo_nb.profiles.tables import parse_profile
from tests.acp_schema import validate

STRANGER = 54321


class Home:
    """The places a profiles.toml may lie in, empty to begin with."""

    def __init__(self, root: Path) -> None:
        self.user = root / "user" / "profiles.toml"
        self.system = root / "etc" / "silo_nb" / "profiles.toml"
        for file in (self.user, self.system):
            file.parent.mkdir(parents=True, mode=0o700)

    @staticmethod
    def write(file: Path, text: str) -> Path:
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        return file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path)
    monkeypatch.setenv("SILO_NB_CONFIG_DIR", str(home.user.parent))
    monkeypatch.setattr(paths, "SYSTEM_CONFIG_PATH", [str(home.system.parent.parent)])
    return home


def profile(home: Home, text: str, profile_id: str = "a") -> Profile:
    home.write(home.user, text)
    return load_profiles().get(profile_id)


def complaint(home: Home, text: str, profile_id: str = "a") -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        profile(home, text, profile_id)
    return caught.value


# ------------------------------------------------------------------------------------ what is read


def test_demo_is_there_without_any_file(home: Home) -> None:
    profiles = load_profiles()

    assert list(profiles) == ["demo"]
    assert profiles.get("demo") is DEMO
    assert profiles.problems == ()
    assert profiles.permission == "allow"


def test_the_demo_agent_runs_with_this_python_and_nothing_from_the_working_directory() -> None:
    assert DEMO.command == (sys.executable, "-P", "-m", "silo_nb.demo_agent")
    assert DEMO.file is None


def test_a_profile_needs_no_more_than_a_command(home: Home) -> None:
    found = profile(home, '[profiles.a]\ncommand = ["agent", "--acp"]\n')

    assert found == Profile(id="a", label="a", command=("agent", "--acp"), file=home.user)
    assert (found.interface, found.inherit_env, found.kernel_tools) == ("chat", True, True)


def test_every_key_arrives(home: Home) -> None:
    found = profile(
        home,
        """
        [profiles.a]
        label = "An agent"
        command = ["agent"]
        interface = "terminal"
        agent_id = "claude"
        env = { BASE_URL = "http://localhost" }
        cwd = "/srv/data"
        inherit_env = false
        defaults = { mode = "plan", fast = true }
        session_meta = { claudeCode = { options = { tools = ["Read"] } } }
        mcp_servers = [
          { name = "files", command = "/usr/bin/files", args = ["-v"], env = { DEPTH = "3" } },
          { name = "web", type = "http", url = "https://example.org", headers = { Accept = "*" } },
        ]
        kernel_tools = false
        install_hint = "npm install agent"
        """,
    )

    assert found == Profile(
        id="a",
        label="An agent",
        command=("agent",),
        interface="terminal",
        agent_id="claude",
        env={"BASE_URL": "http://localhost"},
        cwd=Path("/srv/data"),
        inherit_env=False,
        defaults={"mode": "plan", "fast": True},
        session_meta={"claudeCode": {"options": {"tools": ["Read"]}}},
        mcp_servers=(
            {
                "name": "files",
                "command": "/usr/bin/files",
                "args": ["-v"],
                "env": [{"name": "DEPTH", "value": "3"}],
            },
            {
                "type": "http",
                "name": "web",
                "url": "https://example.org",
                "headers": [{"name": "Accept", "value": "*"}],
            },
        ),
        kernel_tools=False,
        install_hint="npm install agent",
        file=home.user,
    )


def test_mcp_servers_are_what_the_protocol_expects(home: Home) -> None:
    found = profile(
        home,
        """
        [profiles.a]
        command = ["agent"]
        mcp_servers = [
          { name = "bare", command = "/usr/bin/bare" },
          { name = "old", type = "sse", url = "https://example.org" },
        ]
        """,
    )

    for server in found.mcp_servers:
        validate("McpServer", dict(server))


def test_a_byte_order_mark_and_windows_line_ends_are_fine(home: Home) -> None:
    found = profile(home, '\ufeff[profiles.a]\r\ncommand = ["agent"]\r\n')

    assert found.command == ("agent",)


def test_an_edit_counts_at_the_next_look(home: Home) -> None:
    home.write(home.user, '[profiles.a]\ncommand = ["one"]\n')
    before = load_profiles()
    home.write(home.user, '[profiles.a]\ncommand = ["two"]\n')

    assert load_profiles().get("a").command == ("two",)
    assert before.get("a").command == ("one",)


def test_the_user_wins_over_the_system_for_a_profile(home: Home) -> None:
    home.write(home.system, '[profiles.a]\ncommand = ["theirs"]\n[profiles.b]\ncommand = ["b"]\n')
    home.write(home.user, '[profiles.a]\ncommand = ["mine"]\n')
    profiles = load_profiles()

    assert profiles["a"].command == ("mine",)
    assert profiles["b"].file == home.system
    assert list(profiles) == ["demo", "a", "b"]


def test_a_profile_lies_in_the_jupyter_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SILO_NB_CONFIG_DIR", raising=False)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))

    assert user_file() == tmp_path / "silo_nb" / "profiles.toml"


def test_a_working_directory_defines_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2: nothing a notebook brings along can name a program to start."""
    project = home.user.parent.parent / "project"
    for name in ("profiles.toml", "silo_nb/profiles.toml", ".jupyter/silo_nb/profiles.toml"):
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        home.write(file, '[profiles.evil]\ncommand = ["evil"]\n')
    monkeypatch.chdir(project)

    assert list(load_profiles()) == ["demo"]


@pytest.mark.parametrize("relative", [".", "conf", "../conf"])
def test_a_configuration_directory_must_be_absolute(
    home: Home, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    """R2: else the working directory would decide which programs there are."""
    home.write(home.user, '[profiles.a]\ncommand = ["agent"]\n')
    monkeypatch.chdir(home.user.parent)
    monkeypatch.setenv("SILO_NB_CONFIG_DIR", relative)

    with pytest.raises(ProfileError, match=r"must be absolute.*SILO_NB_CONFIG_DIR"):
        load_profiles().get("a")


def test_secrets_stay_out_of_the_repr(home: Home) -> None:
    """T-17: a profile that ends an output cell shows no key."""
    found = profile(
        home,
        """
        [profiles.a]
        command = ["agent"]
        env = { KEY = "canary" }
        session_meta = { key = "canary" }
        mcp_servers = [{ name = "m", command = "/m", env = { KEY = "canary" } }]
        """,
    )

    assert "canary" not in repr(found)


# -------------------------------------------------------------------------- what is said of errors


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ("label = 3", "label", "must be a string, not a number"),
        ('label = " "', "label", "must not be empty"),
        ("command = []", "command", "must begin with a program"),
        ('command = ["", "x"]', "command", "must begin with a program"),
        ('command = ["agent", 3]', "command.1", "must be a string, not a number"),
        ('command = ["a\\u0000b"]', "command.0", "NUL"),
        ("command = { program = 'agent' }", "command", "must be an array, not a table"),
        ('interface = "chatt"', "interface", "Did you mean 'chat'?"),
        ("agent_id = true", "agent_id", "must be a string, not true or false"),
        ('env = ["A=b"]', "env", "must be a table, not an array"),
        ("env = { DEPTH = 3 }", "env.DEPTH", "must be a string, not a number"),
        ('env = { "A=B" = "c" }', "env.A=B", "is no name of an environment variable"),
        ('cwd = "~/work"', "cwd", "must be an absolute path"),
        ('inherit_env = "false"', "inherit_env", "must be true or false, not a string"),
        ("kernel_tools = 1", "kernel_tools", "must be true or false, not a number"),
        ("defaults = { mode = 1 }", "defaults.mode", "must be a string or true or false"),
        ("session_meta = { a = [nan] }", "session_meta.a.0", "must be a finite number"),
        ("session_meta = { a = 2026-01-01 }", "session_meta.a", "must not be a date or time"),
        ("mcp_servers = {}", "mcp_servers", "must be an array, not a table"),
        ('mcp_servers = [{ name = "m" }]', "mcp_servers.0.command", "is missing"),
        ('mcp_servers = [{ type = "http", name = "m" }]', "mcp_servers.0.url", "is missing"),
        ('mcp_servers = [{ type = "pipe" }]', "mcp_servers.0.type", 'must be "stdio" or'),
        ('mcp_servers = [{ name = "m", comand = "m" }]', "mcp_servers.0.comand", "'command'?"),
        ("install_hint = []", "install_hint", "must be a string, not an array"),
        ("inherit-env = false", "inherit-env", "unknown key. Did you mean 'inherit_env'?"),
        ("zzz = 1", "zzz", "unknown key. Known keys: label, command,"),
    ],
)
def test_an_error_names_file_table_and_key(home: Home, line: str, key: str, message: str) -> None:
    command = "" if line.startswith("command") else 'command = ["agent"]\n'

    error = complaint(home, f"[profiles.a]\n{command}{line}\n")

    assert (error.file, error.table, error.key) == (home.user, "profiles.a", key)
    assert message in str(error)
    assert str(error).startswith(f"{home.user}: [profiles.a]: {key}: ")


def test_a_missing_command_says_what_to_write(home: Home) -> None:
    error = complaint(home, '[profiles.a]\nlabel = "A"\n')

    assert error.key == "command"
    assert 'write command = ["<program>", "<argument>", …]' in str(error)


@pytest.mark.parametrize(
    ("line", "array"),
    [
        ("npx -y 'my agent' --acp", '["npx", "-y", "my agent", "--acp"]'),
        ("agent 'unclosed", '["agent", "\'unclosed"]'),
    ],
)
def test_a_shell_line_is_refused_with_the_array_to_write(home: Home, line: str, array: str) -> None:
    """Case 17: there is no shell, so nothing may look as if there were one."""
    error = complaint(home, f"[profiles.a]\ncommand = {json.dumps(line)}\n")

    assert f"write command = {array}." in str(error)


def test_an_error_does_not_repeat_what_may_be_a_secret(home: Home) -> None:
    """T-17: the value in the wrong place may be a key."""
    error = complaint(home, '[profiles.a]\ncommand = ["x"]\nenv = "KEY=canary"\n')

    assert "canary" not in str(error)


@pytest.mark.parametrize("bad", ["-a", "_a", "a b", "a/b", "ä", "a" * 65, "a\\nb", ""])
def test_an_id_is_short_and_plain(home: Home, bad: str) -> None:
    home.write(home.user, f'[profiles."{bad}"]\ncommand = ["agent"]\n')
    profiles = load_profiles()

    assert list(profiles) == ["demo"]
    assert "cannot be a profile's id" in str(profiles.problems[0])


def test_demo_cannot_be_redefined(home: Home) -> None:
    home.write(home.user, '[profiles.demo]\ncommand = ["evil"]\n')
    profiles = load_profiles()

    assert profiles.get("demo") is DEMO
    assert "built in and cannot be redefined" in str(profiles.problems[0])


def test_an_unknown_id_is_told_the_nearest_one_and_where_to_write(home: Home) -> None:
    """R4: its own error, and the next step."""
    error = complaint(home, '[profiles.claude]\ncommand = ["agent"]\n', "cluade")

    assert str(error) == (
        "There is no profile 'cluade'. Did you mean 'claude'? There are: demo, claude. "
        f"Profiles are defined in {str(home.user)!r}."
    )


def test_a_broken_table_leaves_the_others_usable(home: Home) -> None:
    home.write(home.user, '[profiles.a]\ncommand = "x"\n[profiles.b]\ncommand = ["b"]\n')
    profiles = load_profiles()

    assert profiles.get("b").command == ("b",)
    assert "a" not in profiles
    assert [problem.table for problem in profiles.problems] == ["profiles.a"]
    with pytest.raises(ProfileError, match=r"\[profiles.a\]: command: "):
        profiles.get("a")


def test_an_error_can_be_raised_again_and_again(home: Home) -> None:
    home.write(home.user, "[profiles.a]\n")
    profiles = load_profiles()

    for _ in range(3):
        with pytest.raises(ProfileError) as caught:
            profiles.get("a")
        assert len(list(caught.traceback)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "[profiles.a\n",
        "a = 1\na = 2\n",
        "profiles = 3\n",
        "n = " + "9" * 5000,
        "x = " + "[" * 5000 + "]" * 5000,
    ],
    ids=["syntax", "twice", "no-table", "endless-number", "deep"],
)
def test_a_file_that_cannot_be_read_says_so_for_each_of_its_profiles(home: Home, text: str) -> None:
    home.write(home.user, text)
    profiles = load_profiles()

    assert profiles.get("demo") is DEMO
    for asked in ("a", "anything"):
        with pytest.raises(ProfileError) as caught:
            profiles.get(asked)
        assert caught.value.file == home.user


def test_a_syntax_error_is_located(home: Home) -> None:
    error = complaint(home, '[profiles.a]\ncommand = ["x"\nlabel = "A"\n')

    assert "is not valid TOML" in str(error)
    assert "line 3" in str(error)


def test_an_unreadable_file_of_the_user_hides_the_systems_profiles(home: Home) -> None:
    """It may have redefined them: better an error than another program than was asked for."""
    home.write(home.system, '[profiles.a]\ncommand = ["theirs"]\n')

    error = complaint(home, "[profiles.a\n")

    assert error.file == home.user


def test_an_unreadable_file_of_the_system_leaves_the_users_profiles(home: Home) -> None:
    home.write(home.system, "[profiles.a\n")

    assert profile(home, '[profiles.a]\ncommand = ["mine"]\n').command == ("mine",)


def test_a_misspelt_table_is_named(home: Home) -> None:
    error = complaint(home, '[profile.a]\ncommand = ["agent"]\n')

    assert str(error) == f"{home.user}: [profile]: unknown table. Did you mean 'profiles'?"


# -------------------------------------------------------------------------- the "agents" permission

ALLOW = '[agents]\npermission = "allow"\n'
DENY = '[agents]\npermission = "deny"\n'


@pytest.mark.parametrize(
    ("user", "system", "permission"),
    [
        ("", "", "allow"),
        (DENY, "", "deny"),
        (ALLOW, "", "allow"),
        ("", DENY, "deny"),
        (ALLOW, DENY, "deny"),
        (DENY, ALLOW, "allow"),
        ("[agents]\n", DENY, "deny"),
        (DENY, "[agents]\n", "deny"),
        ("[profiles.a]\n", "", "allow"),
        ("not toml", "", "allow"),
        ("not toml", DENY, "deny"),
        ('[agents]\npermission = "no"\n', DENY, "deny"),
    ],
)
def test_an_administrators_word_wins(home: Home, user: str, system: str, permission: str) -> None:
    """R3: granted or withheld in a file only the user or the administrator can write."""
    home.write(home.user, user)
    home.write(home.system, system)

    assert load_profiles().permission == permission


@pytest.mark.parametrize(
    ("user", "system"),
    [
        ('[agents]\npermission = "no"\n', ""),
        ("[agents]\npermission = false\n", ""),
        ('[agents]\npermision = "deny"\n', ""),
        ('agents = "deny"\n', ""),
        ('[agent]\npermission = "deny"\n', ""),
        (ALLOW, "not toml"),
        (ALLOW, '[agents]\npermission = "no"\n'),
    ],
)
def test_a_permission_nobody_understands_allows_nothing(home: Home, user: str, system: str) -> None:
    """R3: a deny with a typing error must not become an allow."""
    home.write(home.user, user)
    home.write(home.system, system)
    profiles = load_profiles()

    with pytest.raises(ProfileError) as caught:
        _ = profiles.permission
    assert caught.value in profiles.problems


# ------------------------------------------------- T3: whose file it is and who may write to it

TWELVE_FILES = {
    "plain": '[profiles.a]\ncommand = ["agent"]\n',
    "two": '[profiles.a]\ncommand = ["agent"]\n[profiles.b]\ncommand = ["b"]\n',
    "terminal": '[profiles.a]\ncommand = ["agent"]\ninterface = "terminal"\n',
    "clean": '[profiles.a]\ncommand = ["agent"]\ninherit_env = false\n',
    "variables": '[profiles.a]\ncommand = ["agent"]\nenv = { PATH = "/evil" }\n',
    "elsewhere": '[profiles.a]\ncommand = ["agent"]\ncwd = "/"\n',
    "meta": '[profiles.a]\ncommand = ["agent"]\nsession_meta = { x = 1 }\n',
    "server": '[profiles.a]\ncommand = ["a"]\nmcp_servers = [{ name = "m", command = "m" }]\n',
    "allowed": f'{ALLOW}[profiles.a]\ncommand = ["agent"]\n',
    "denied": f'{DENY}[profiles.a]\ncommand = ["agent"]\n',
    "demo": '[profiles.demo]\ncommand = ["evil"]\n[profiles.a]\ncommand = ["agent"]\n',
    "commented": '# hello\n[profiles.a] # a\ncommand = [\n  "agent", # b\n]\n',
}


def give_away(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Let `path` belong to a stranger. Without root's means, we become the stranger."""
    if os.geteuid() == 0:
        os.lchown(path, STRANGER, -1)
    else:
        patch.setattr(os, "geteuid", lambda: STRANGER)


def move_behind_a_link(file: Path) -> Path:
    """Move `file` into a directory of its own and leave a link; return where it is now."""
    real = file.parent.parent / "dotfiles" / "renamed.toml"
    real.parent.mkdir(mode=0o700)
    file.rename(real)
    file.symlink_to(Path("..") / "dotfiles" / "renamed.toml")
    return real


Disguise = Callable[[Path, pytest.MonkeyPatch], object]


def mode(bits: int) -> Disguise:
    return lambda file, _patch: file.chmod(bits)


def directory_mode(bits: int) -> Disguise:
    return lambda file, _patch: file.parent.chmod(bits)


def link(file: Path, _patch: pytest.MonkeyPatch) -> None:
    move_behind_a_link(file)


def link_to_link(file: Path, _patch: pytest.MonkeyPatch) -> None:
    move_behind_a_link(file)
    middle = file.with_name("middle")
    file.rename(middle)
    file.symlink_to(middle)


def linked_directory(file: Path, _patch: pytest.MonkeyPatch) -> None:
    real = file.parent.with_name("real")
    file.parent.rename(real)
    file.parent.symlink_to(real)


def stranger(file: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(file, patch)


def strangers_directory(file: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(file.parent, patch)


def strangers_link(file: Path, patch: pytest.MonkeyPatch) -> None:
    move_behind_a_link(file)
    give_away(file, patch)


def link_to_writable(file: Path, _patch: pytest.MonkeyPatch) -> None:
    move_behind_a_link(file).chmod(0o666)


def link_into_writable_directory(file: Path, _patch: pytest.MonkeyPatch) -> None:
    move_behind_a_link(file).parent.chmod(0o777)


def dangling_link(file: Path, _patch: pytest.MonkeyPatch) -> None:
    move_behind_a_link(file).unlink()


def link_to_itself(file: Path, _patch: pytest.MonkeyPatch) -> None:
    file.unlink()
    file.symlink_to(file)


def pipe(file: Path, _patch: pytest.MonkeyPatch) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def directory(file: Path, _patch: pytest.MonkeyPatch) -> None:
    file.unlink()
    file.mkdir(mode=0o700)


def huge(file: Path, _patch: pytest.MonkeyPatch) -> None:
    with file.open("a") as opened:
        opened.write("#" * (1 << 20))


def latin(file: Path, _patch: pytest.MonkeyPatch) -> None:
    file.write_bytes(file.read_bytes() + b"# \xe4\n")


ACCEPTED: dict[str, Disguise] = {
    "0600": mode(0o600),
    "0644": mode(0o644),
    "0400": mode(0o400),
    "sticky-directory": directory_mode(0o1777),
    "link": link,
    "link-to-link": link_to_link,
    "linked-directory": linked_directory,
}
REFUSED: dict[str, Disguise] = {
    "0620": mode(0o620),
    "0602": mode(0o602),
    "0666": mode(0o666),
    "0777": mode(0o777),
    "directory-0770": directory_mode(0o770),
    "directory-0777": directory_mode(0o777),
    "stranger": stranger,
    "strangers-directory": strangers_directory,
    "strangers-link": strangers_link,
    "link-to-writable": link_to_writable,
    "link-into-writable-directory": link_into_writable_directory,
    "dangling-link": dangling_link,
    "link-to-itself": link_to_itself,
    "pipe": pipe,
    "directory": directory,
    "huge": huge,
    "latin-1": latin,
}


@pytest.mark.parametrize("disguise", ACCEPTED)
@pytest.mark.parametrize("name", TWELVE_FILES)
def test_a_file_of_ones_own_is_read(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, disguise: str
) -> None:
    """FAULTS T3."""
    home.write(home.user, TWELVE_FILES[name])
    ACCEPTED[disguise](home.user, monkeypatch)
    profiles = load_profiles()

    assert profiles.get("a").file == home.user
    assert profiles.permission == ("deny" if name == "denied" else "allow")


@pytest.mark.parametrize("disguise", REFUSED)
@pytest.mark.parametrize("name", TWELVE_FILES)
def test_a_file_others_have_a_hand_in_defines_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, disguise: str
) -> None:
    """FAULTS T3: refused as a whole, with a word on what to do."""
    home.write(home.user, TWELVE_FILES[name])
    REFUSED[disguise](home.user, monkeypatch)
    profiles = load_profiles()

    assert list(profiles) == ["demo"]
    assert profiles.get("demo") is DEMO
    with pytest.raises(ProfileError) as caught:
        profiles.get("a")
    assert caught.value.file == home.user


@pytest.mark.parametrize("disguise", ["0666", "stranger", "dangling-link", "latin-1"])
def test_a_system_file_that_cannot_be_trusted_allows_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, disguise: str
) -> None:
    """R3: who knows whether the administrator's file said deny."""
    home.write(home.system, TWELVE_FILES["plain"])
    REFUSED[disguise](home.system, monkeypatch)

    with pytest.raises(ProfileError):
        _ = load_profiles().permission


def test_the_way_out_is_a_command_to_copy(home: Home) -> None:
    home.write(home.user, TWELVE_FILES["plain"]).chmod(0o664)

    with pytest.raises(ProfileError, match=f"chmod go-w {home.user}"):
        load_profiles().get("a")


def test_a_missing_directory_is_an_empty_one(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILO_NB_CONFIG_DIR", str(tmp_path / "nowhere"))

    assert load_profiles().problems == ()
    assert not (tmp_path / "nowhere").exists()


def test_reading_changes_nothing_on_disk(home: Home) -> None:
    home.write(home.user, TWELVE_FILES["plain"])
    before = sorted(home.user.parent.parent.rglob("*"))

    load_profiles()

    assert sorted(home.user.parent.parent.rglob("*")) == before
    assert stat.S_IMODE(home.user.stat().st_mode) == 0o600


TOML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    key=st.sampled_from(
        [
            "label",
            "command",
            "interface",
            "agent_id",
            "env",
            "cwd",
            "inherit_env",
            "defaults",
            "session_meta",
            "mcp_servers",
            "kernel_tools",
            "install_hint",
            "else",
        ]
    ),
    value=TOML_VALUES,
)
def test_whatever_a_table_holds_the_answer_is_a_profile_or_a_profile_error(
    key: str, value: object
) -> None:
    table = {"command": ["agent"], key: value}
    outcome: Profile | ProfileError
    try:
        outcome = parse_profile("a", table, Path("/profiles.toml"))
    except ProfileError as error:
        outcome = error

    if isinstance(outcome, ProfileError):
        assert outcome.table == "profiles.a"
        assert (outcome.key or "").startswith(key)
    else:
        assert outcome.id == "a"
