"""
What differs in portable mode by design (MULLIGAN_PLATFORM=portable), test by test; these are counted apart, as not run.

Each row is a part of a test's id. Every other test holds in both modes.
"""

from __future__ import annotations

_WATCHER = "portable mode: there is no watcher without notices of changes"
_CALLS = "portable mode: the test names a call that only Linux has"
_ATTRIBUTES = "portable mode: there are no extended attributes"
_SYNC = "portable mode: files are synced one by one, not by one call for the file system"

_PINS = "portable mode: a pin is the number of a process, which another container cannot see (limits.md)"
_IN_PROCESS = "portable mode: a pin is the number of a process, and the process that this test calls killed goes on"
_CLIENTS = "portable mode: no system shows its processes as files, so a killed agent counts as running (limits.md)"

BY_DESIGN = {
    "test_imports.py::test_a_command_that_a_watcher_runs_loads_neither_engine_nor_parser": _WATCHER,
    "test_sharers.py::test_sharers_of_a_store_do_each_other_no_harm[containers]": _PINS,
    "test_processes.py::test_a_guards_checkpoint_is_safe_from_a_container_that_shares_the_store": _PINS,
    "test_fork.py::test_a_kill_at_any_call_leaves_a_whole_fork_or_none": _IN_PROCESS,
    "test_fork.py::test_what_a_user_puts_in_the_place_of_an_interrupted_fork_stays": _IN_PROCESS,
    "test_turns.py::test_what_changes_after_an_agent_was_killed_is_not_its_work[alone]": _CLIENTS,
    "test_turns.py::test_what_changes_after_an_agent_was_killed_is_not_its_work[watched]": _WATCHER,
    "tests/watch/": _WATCHER,
    "test_idle_push.py::": _WATCHER,
    "test_lazy.py::test_a_watcher_leaves_the_network_to_its_client": _WATCHER,
    "test_worktrees.py::test_a_watched_project_leaves_the_worktree_out_too": _WATCHER,
    "test_leaving.py::test_uninstall_ends_watchers": _WATCHER,
    "test_leaving.py::test_one_line_says_when_it_was_saved_and_counts_changes_where_a_watcher_knows_them": _WATCHER,
    "test_watched.py::test_a_command_is_one_turn_and_one_undo_takes_it_back": _WATCHER,
    "test_gone_or_replaced.py::test_a_copy_with_all_its_attributes_is_the_same_project": _ATTRIBUTES,
    "test_gone_or_replaced.py::test_a_history_of_an_older_release_gets_its_mark_with_the_next_save": _ATTRIBUTES,
    "test_clock.py::test_the_start_of_the_machine_has_one_name": _CALLS,
    "test_directory.py::test_two_names_are_swapped_in_one_step": _CALLS,
    "test_directory.py::test_other_errors_of_a_rename_are_told": _CALLS,
    "test_durable.py::test_what_is_known_of_one_disk_is_not_taken_for_another_with_the_same_number": _CALLS,
    "test_recovery.py::test_a_restore_that_had_begun_is_finished_and_can_be_undone[point5]": _CALLS,
    "test_recovery.py::test_unplanned_bytes_in_a_temporary_are_put_in_sight": _CALLS,
    "test_recovery.py::test_an_interrupt_leaves_nothing_half_done[chmod-": _CALLS,
    "test_executor.py::test_two_writes_in_one_moment_are_both_kept": _CALLS,
    "test_executor.py::test_a_path_that_refuses_is_listed_and_the_rest_is_exact[1-chmod]": _CALLS,
    "test_executor.py::test_a_path_that_refuses_is_listed_and_the_rest_is_exact[16-chmod]": _CALLS,
    "test_executor.py::test_a_path_that_refuses_is_listed_and_the_rest_is_exact[5-chmod]": _CALLS,
    "test_executor.py::test_a_directory_that_cannot_be_opened_to_be_synced_is_synced_with_its_file_system": _CALLS,
    "test_trash.py::test_a_large_file_and_a_store_on_another_disk_are_removed_at_once": _CALLS,
    "test_staging.py::test_owner_and_attributes_of_a_replaced_file_are_taken_over": _ATTRIBUTES,
    "test_staging.py::test_what_cannot_be_taken_over_is_listed[setxattr": _ATTRIBUTES,
    "test_staging.py::test_nobody_else_may_open_a_staged_file_before_it_has_what_it_takes_over": _ATTRIBUTES,
    "test_staging.py::test_the_last_sync_before_files_change_comes_after_the_last_was_staged": _SYNC,
    "test_staging.py::test_a_sync_that_fails_is_not_asked_for_again_and_ends_it_with_nothing_changed": _SYNC,
    "test_staging.py::test_what_changes_each_time_the_disk_confirms_is_left_alone_and_listed": _SYNC,
    "test_staging.py::test_files_that_the_disk_did_not_confirm_where_they_belong_are_not_acknowledged": _SYNC,
    "test_executor.py::test_a_restore_of_permission_bits_alone_is_made_durable": _SYNC,
    "test_many_files.py::test_a_sync_that_fails_ends_it_and_is_not_asked_for_again": _SYNC,
}
