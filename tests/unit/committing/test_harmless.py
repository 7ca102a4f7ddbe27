"""Which settings are kept, which are disarmed, and in which order."""

from __future__ import annotations

from mulligan.committing.commands import Setting, filters, overrides, parse_settings


def chosen(*settings: Setting) -> dict[str, str]:
    return dict(overrides(settings))


def test_a_listing_is_read_with_newlines_and_empty_values():
    listed = b"local\0user.name\nA\nB\0global\0core.bare\0local\0a.b=c.d\n\0"
    assert parse_settings(listed) == [
        Setting("local", "user.name", "A\nB"),
        Setting("global", "core.bare", ""),
        Setting("local", "a.b=c.d", ""),
    ]


def test_a_repositorys_word_on_who_commits_wins_over_its_users():
    found = chosen(Setting("global", "user.name", "G"), Setting("local", "user.name", "L"))
    assert found["user.name"] == "L"


def test_what_a_user_configured_and_could_start_a_program_is_not_kept():
    found = chosen(Setting("global", "core.sshcommand", "x"), Setting("system", "diff.external", "x"))
    assert found["core.sshCommand"] == "false"
    assert "x" not in found.values()


def test_names_with_odd_characters_are_disarmed_whole():
    found = chosen(Setting("local", "filter.a=b.c d.clean", "evil"), Setting("local", "Filter.X.Smudge", "evil"))
    assert found["filter.a=b.c d.clean"] == ""
    assert found["Filter.X.Smudge"] == ""


def test_an_identity_is_supplied_only_where_one_is_missing():
    assert chosen()["user.email"] == "mulligan@localhost"
    assert "user.email" not in chosen(Setting("local", "user.email", "x@y"))


def test_filters_are_known_by_name():
    rows = [Setting("global", "filter.lfs.process", "git-lfs"), Setting("local", "filter.off.clean", "")]
    assert filters(rows) == {"lfs"}
