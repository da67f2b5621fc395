"""What the accepted combinations promise, and what they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.guarantees.row import Guarantee, Level, Rule
from localqueue.policies.configuration import Configuration

_WAITING = ("block", "reject")


def _promised(
    id: str,
    combination: str,
    level: Level,
    reason: str,
    *,
    when: Callable[[Configuration], bool],
    proof: tuple[str, ...] = (),
) -> Rule:
    return Rule(
        guarantee=Guarantee(id=id, combination=combination, level=level, reason=reason, proof=proof),
        applies=when,
    )


def _delivery(configuration: Configuration, field: str) -> Any:
    return getattr(configuration.delivery_policy, field, None)


def _is_effectively_once(configuration: Configuration) -> bool:
    return configuration.delivery_policy.guarantee == "effectively-once"


def _ledger_is_inside(configuration: Configuration) -> bool:
    """Whether the ledger is the queue's own, or one inside a queue store, which is then taken for the same one."""
    ledger = _delivery(configuration, "idempotency_store")
    return ledger is None or type(ledger).__name__ == "QueueIdempotencyStore"


def _commit_mode(configuration: Configuration) -> str | None:
    return getattr(_delivery(configuration, "commit_policy"), "mode", None)


def _any_queue(configuration: Configuration) -> bool:
    """Durability belongs to the store, which no policy knows: these rows speak about every queue."""
    return True


PROMISES: tuple[Rule, ...] = (
    _promised(
        "at-least-once",
        "At-least-once delivery",
        "at-least-once",
        "A stored message is leased again until it is acknowledged, dead-lettered, cancelled, expired or "
        "purged. A handler that outlives its lease may run beside its successor; only the current lease can "
        "settle the message. A bare id settles it too: that is an operator's override.",
        when=lambda c: c.delivery_policy.guarantee == "at-least-once",
        proof=(
            "src/localqueue/contracts/leases.py::LeaseContract::test_a_lease_is_held_until_its_timeout_and_not_longer",
            "src/localqueue/contracts/fencing.py::FencingContract::test_a_stale_token_changes_nothing",
            "src/localqueue/contracts/processes.py::ProcessContract::test_a_stale_token_changes_nothing_from_another_process",
            "tests/integration/test_queue_processes.py::test_messages_of_a_killed_consumer_are_delivered_again",
            "tests/unit/test_queue_settlement.py::test_a_lost_lease_can_not_settle",
            "tests/unit/test_queue_settlement.py::test_an_operator_overrides_any_lease_by_id",
        ),
    ),
    _promised(
        "at-most-once",
        "At-most-once delivery",
        "at-most-once",
        "The message is removed before it is handed out. A consumer that dies loses it, and `ack`, `release` "
        "and `dead_letter` return False. A message that can not be decoded is kept as a dead letter.",
        when=lambda c: c.delivery_policy.guarantee == "at-most-once",
        proof=(
            "src/localqueue/contracts/leases.py::LeaseContract::test_consume_delivers_at_most_once",
            "tests/unit/test_queue_consumer.py::test_at_most_once_delivery_removes_a_message_before_handing_it_out",
            "tests/unit/test_queue_payloads.py::test_at_most_once_delivery_keeps_an_unreadable_record_too",
        ),
    ),
    _promised(
        "worker-failures",
        "A handler of a worker that fails",
        "at-least-once",
        "Whatever a handler raises is a failed attempt of its message, which is retried or dead-lettered, and what can "
        "not be read is dead-lettered; the worker goes on. Only Ctrl-C ends it, and the message is left to its lease. "
        "Cancelling an async worker gives its messages back. A deadline (`stop_after_delay`) counts from the first "
        "attempt, by the store's clock.",
        when=lambda c: c.delivery_policy.guarantee != "at-most-once",
        proof=(
            "tests/unit/test_worker_poison.py::test_whatever_a_handler_raises_is_a_failed_attempt_of_its_message",
            "tests/unit/test_worker_interrupts.py::test_an_interrupt_ends_the_worker_and_loses_nothing",
            "tests/unit/test_async_worker.py::test_a_run_that_is_cancelled_cancels_its_handlers_and_gives_the_messages_back",
            "tests/unit/test_queue_payloads.py::test_headers_that_can_not_be_read_make_a_dead_letter",
            "tests/unit/test_worker_clocks.py::test_a_deadline_counts_from_the_first_attempt_by_the_clock_of_the_store",
            "tests/faults/test_clock_skew.py::test_a_worker_gives_up_by_the_servers_clock",
        ),
    ),
    _promised(
        "kept-errors",
        "The error that a message is settled with",
        "local",
        "It is kept up to 32 KiB of JSON, in `last_error` and for each of the last 20 attempts; of a longer one the "
        "beginning and the end of its texts. Nothing in an error keeps its message from being settled.",
        when=_any_queue,
        proof=(
            "src/localqueue/contracts/errors.py::ErrorContract::test_an_error_of_any_length_is_kept_up_to_its_limit",
            "src/localqueue/contracts/errors.py::ErrorContract::test_an_error_of_any_kind_settles_its_message",
            "src/localqueue/contracts/errors.py::ErrorContract::test_the_errors_of_all_attempts_together_have_a_bound",
        ),
    ),
    _promised(
        "kept-results",
        "`keep_results=seconds`",
        "local",
        "What became of a message, and what its handler returned, is written by the commit that settles it and is "
        "known for that long: the message is there or its outcome is, and never the result of a worker that lost its "
        "lease. A message that the store buries itself, because its worker died for the last time, says so as a "
        "dead letter.",
        when=lambda c: c.delivery_policy.ack_timing != "before-delivery",
        proof=(
            "tests/crash/test_worker_kills.py::test_a_message_is_there_or_its_result_is_wherever_its_worker_is_killed",
            "src/localqueue/contracts/outcomes.py::OutcomeContract::test_the_result_of_a_stale_consumer_is_refused",
            "tests/unit/test_worker_results.py::test_the_result_of_a_worker_that_lost_its_lease_is_refused",
            "tests/unit/test_worker_results.py::test_every_way_to_work_keeps_what_the_handler_returned",
            "tests/unit/test_queue_results.py::test_outcomes_are_forgotten_while_others_are_written",
            "tests/unit/test_queue_results.py::test_a_message_that_the_store_buried_has_failed",
        ),
    ),
    _promised(
        "progress",
        "`current_job().progress(...)`",
        "best-effort",
        "What a handler tells is written by the thread of its worker that renews leases, so it is seen a little "
        "later, and the last word of a handler may be missing. The progress of an earlier attempt is not shown, and "
        "that of a message which is gone is forgotten.",
        when=lambda c: c.delivery_policy.ack_timing != "before-delivery",
        proof=(
            "src/localqueue/contracts/outcomes.py::SharedOutcomeContract::test_progress_and_cancelling_pass_between_processes",
            "tests/unit/test_worker_results.py::test_progress_is_seen_from_outside_and_gone_when_the_message_is",
            "tests/unit/test_worker_results.py::test_progress_of_an_earlier_attempt_is_not_shown",
        ),
    ),
    _promised(
        "cancellation",
        "`cancel(message)` and `cancel_run(run_id)`",
        "local",
        "When it returns, the message has left delivery and its lease is lost: what its handler still does is not "
        "acked, and its result is refused. A handler that has run for half a second is told, in whatever process: "
        "`current_job().cancelled` is true, and the task of an `AsyncWorker` is cancelled. A thread that does not "
        "look runs to its end.",
        when=lambda c: c.delivery_policy.ack_timing != "before-delivery",
        proof=(
            "src/localqueue/contracts/outcomes.py::OutcomeContract::test_cancelling_is_an_outcome_and_ends_the_lease",
            "src/localqueue/contracts/outcomes.py::SharedOutcomeContract::test_progress_and_cancelling_pass_between_processes",
            "tests/unit/test_worker_results.py::test_a_handler_in_a_thread_sees_that_its_message_was_cancelled",
            "tests/unit/test_worker_results.py::test_a_task_is_cancelled_soon_after_its_message",
            "tests/unit/test_worker_results.py::test_cancelling_a_run_stops_its_handlers",
        ),
    ),
    _promised(
        "limits",
        "A worker with `Limits(rate=, concurrency=, key=)`",
        "local",
        "Of messages that hold their leases no more run at once, and no more start in any window, than the limit "
        "says, in all threads, processes and machines that are given the same limit on one store. A message without a "
        "place is given back uncounted and has its turn. The place of a worker that died is free when the lease of "
        "its message has run out. A handler that outlived its lease is not counted.",
        when=lambda c: c.delivery_policy.ack_timing != "before-delivery",
        proof=(
            "tests/unit/test_limit_book.py::test_never_more_run_or_start_than_may_and_none_is_refused_without_a_reason",
            "tests/unit/test_limit_book.py::test_every_message_has_its_turn_and_none_is_leased_over_and_over",
            "tests/unit/test_limiter.py::test_limits_hold_whatever_workers_do",
            "tests/unit/test_limiter.py::test_the_place_of_a_worker_that_died_is_free_when_its_lease_has_run_out",
            "tests/integration/test_limit_processes.py::test_processes_that_are_not_killed_keep_the_limits",
            "tests/integration/test_limit_processes.py::test_processes_that_are_killed_leave_no_place_taken",
        ),
    ),
    _promised(
        "tasks",
        "A job of `Tasks`",
        "at-least-once",
        "Its arguments arrive equal and of their types, or `enqueue` raises and stores nothing. No job is lost though "
        "its workers are killed, its result is that of the worker that acked it, and a tick of a schedule is one job. "
        "A job that no task or no signature fits becomes a dead letter that says so.",
        when=lambda c: c.delivery_policy.guarantee == "at-least-once",
        proof=(
            "tests/crash/test_task_kills.py::test_killed_workers_lose_no_job_exceed_no_limit_and_double_no_tick",
            "tests/integration/test_task_stores.py::test_typed_arguments_and_results_of_functions_and_coroutines",
            "tests/unit/test_task_signature.py::test_a_value_arrives_as_it_was_sent",
            "tests/unit/test_tasks.py::test_what_does_not_fit_is_refused_where_it_is_enqueued_and_nothing_is_stored",
            "tests/unit/test_tasks.py::test_a_message_of_an_unknown_task_is_a_dead_letter_that_says_so",
            "tests/unit/test_tasks.py::test_a_message_for_another_signature_is_a_dead_letter_that_says_so",
        ),
    ),
    _promised(
        "async-cancellation",
        "A call of `AsyncQueue` that is cancelled",
        "local",
        "A `get` that is cancelled has taken nothing when it raises: what was claimed for it goes to another that "
        "waits, or back as if it had never been delivered. Any other call has happened whole or not at all.",
        when=lambda c: c.delivery_policy.guarantee == "at-least-once",
        proof=(
            "tests/unit/test_async_queue_cancellation.py::test_calls_that_are_cancelled_at_random_lose_and_hold_and_double_nothing",
            "tests/unit/test_async_queue_cancellation.py::test_no_schedule_of_cancellations_loses_or_holds_or_doubles_a_message",
            "tests/unit/test_async_queue_cancellation.py::test_the_end_of_the_loop_gives_back_what_was_claimed",
        ),
    ),
    _promised(
        "effectively-once",
        "Effectively-once delivery with the ledger in the queue's store",
        "effectively-once",
        "A worker's result (inline, or in a `QueueResultStore` on the same store), the record of the key, the "
        "follow-ups of the handler and the ack are one transaction, and a key that succeeded is skipped until its "
        "record is pruned. A handler that is cut off runs again, so effects outside of the store can happen twice. A "
        "consumer without a worker gets at-least-once delivery: only workers read the ledger.",
        when=lambda c: _is_effectively_once(c) and _ledger_is_inside(c),
        proof=(
            "tests/unit/test_effectively_once.py::test_ack_result_record_and_follow_ups_are_one_commit",
            "tests/unit/test_effectively_once.py::test_a_worker_whose_lease_ran_out_leaves_nothing_behind",
            "tests/unit/test_effectively_once.py::test_keys_belong_to_their_queue",
            "tests/crash/test_worker_kills.py::test_follow_ups_results_and_ledger_happen_once_wherever_a_worker_is_killed",
            "tests/crash/test_worker_kills.py::test_balances_are_exact_after_rounds_of_random_kills",
            "tests/unit/test_guarantee_promises.py::test_effectively_once_delivery_redelivers_and_does_not_touch_the_ledger",
            "tests/unit/test_guarantee_promises.py::test_an_acked_key_can_be_put_again",
            "tests/unit/test_queue_producer.py::test_effectively_once_delivery_requires_a_key_on_every_put",
            "src/localqueue/contracts/dedupe.py::DedupeContract::test_a_live_message_holds_its_key",
        ),
    ),
    _promised(
        "effectively-once-external-ledger",
        "Effectively-once delivery with a ledger of its own",
        "effectively-once",
        "What a success leaves in the queue's store is one transaction, as above. The ledger is written before the ack "
        "when there is nothing but the ack, and else copied after it, by the next worker if this one died: until then "
        "other readers of the ledger see the key as pending. A key that another store's queue of the same name has in "
        "progress excludes, if the ledger has `begin`; its mark lasts as long as the lease of the message. A result "
        "store of its own is written before the ack.",
        when=lambda c: _is_effectively_once(c) and not _ledger_is_inside(c),
        proof=(
            "tests/unit/test_effectively_once.py::test_a_crash_between_the_external_ledger_and_the_ack_is_found_as_a_success",
            "tests/unit/test_effectively_once.py::test_an_external_ledger_never_claims_a_success_whose_follow_ups_are_not_stored",
            "tests/unit/test_effectively_once.py::test_a_success_that_did_not_reach_the_external_ledger_is_copied_when_its_key_comes_again",
            "tests/unit/test_effectively_once.py::test_a_key_in_progress_elsewhere_excludes",
            "tests/unit/test_effectively_once.py::test_the_mark_in_an_external_ledger_is_renewed_with_the_lease",
            "tests/crash/test_worker_kills.py::test_follow_ups_results_and_ledger_happen_once_wherever_a_worker_is_killed",
        ),
    ),
    _promised(
        "outbox",
        "TransactionalOutboxCommit without an outbox_store",
        "at-least-once",
        "The envelope is stored by the transaction that acks the message. `OutboxRelay` sends envelopes in the order "
        "of the acks and the next only after the one before was taken; a relay that dies right after sending sends "
        "that one again. Into a queue of the same store each is moved once.",
        when=lambda c: _commit_mode(c) == "transactional-outbox" and _delivery(c, "commit_policy").outbox_store is None,
        proof=(
            "tests/unit/test_outbox.py::test_envelopes_reach_a_callable_in_the_order_of_the_acks",
            "tests/unit/test_outbox.py::test_a_target_that_fails_is_asked_again_before_the_next_envelope_is_sent",
            "tests/unit/test_outbox.py::test_a_stopped_relay_goes_on_where_it_stopped",
            "tests/unit/test_outbox.py::test_a_queue_of_the_same_store_gets_each_envelope_once",
            "tests/crash/test_worker_kills.py::test_a_relay_sends_in_order_and_at_least_once_wherever_it_is_killed",
        ),
    ),
    _promised(
        "outbox-apart",
        "TransactionalOutboxCommit with an outbox_store",
        "at-least-once",
        "The envelope is saved before the ack: none is missing, and one may be sent for work that is then done again. "
        "The relay sends by the time they were saved, counted from the lease of the message by the clock of its store.",
        when=lambda c: (
            _commit_mode(c) == "transactional-outbox" and _delivery(c, "commit_policy").outbox_store is not None
        ),
        proof=(
            "tests/unit/test_outbox.py::test_an_outbox_in_a_store_of_its_own_is_relayed_in_order",
            "tests/unit/test_outbox.py::test_a_relay_of_an_outbox_of_its_own_runs_until_it_is_stopped",
            "tests/unit/test_worker_clocks.py::test_envelopes_in_a_store_of_their_own_are_ordered_by_the_clock_of_the_queue",
        ),
    ),
    _promised(
        "two-phase",
        "TwoPhaseCommit",
        "effectively-once",
        "The ack is the decision: every participant that prepared commits if the message is acked, and rolls back if "
        "not; whoever could not be told is told again by the next worker. A participant must take `commit` and "
        "`rollback` more than once. One that is asked to prepare by a worker that has lost its lease and then dies "
        "keeps its preparation: it should let go of what is never decided.",
        when=lambda c: _commit_mode(c) == "two-phase",
        proof=(
            "tests/unit/test_two_phase.py::test_all_participants_prepare_before_any_commits",
            "tests/unit/test_two_phase.py::test_a_participant_that_can_not_prepare_rolls_everybody_back",
            "tests/unit/test_two_phase.py::test_a_worker_that_lost_its_lease_rolls_back_also_what_it_prepared_after_recovery",
            "tests/unit/test_two_phase.py::test_two_recoveries_at_once_agree",
            "tests/crash/test_worker_kills.py::test_a_participant_commits_each_message_once_wherever_its_worker_is_killed",
        ),
    ),
    _promised(
        "saga",
        "SagaCommit",
        "at-least-once",
        "A finished step is not run again; one that was cut off is. When the message finally fails, also because its "
        "workers died, every step that began is compensated, last first, until all are. A crash repeats at most the "
        "step or the compensation that was running.",
        when=lambda c: _commit_mode(c) == "saga",
        proof=(
            "tests/unit/test_saga.py::test_a_final_failure_is_compensated_in_reverse_order",
            "tests/unit/test_saga.py::test_a_retry_goes_on_where_the_last_try_stopped",
            "tests/unit/test_saga.py::test_a_compensation_that_fails_is_tried_again_and_those_before_are_not",
            "tests/unit/test_saga.py::test_a_message_that_the_store_buried_is_compensated_by_the_next_worker",
            "tests/crash/test_worker_kills.py::test_compensations_are_complete_and_in_reverse_order_wherever_a_worker_is_killed",
        ),
    ),
    _promised(
        "exactly-once-effects",
        "Exactly-once effects in other systems",
        "out-of-scope",
        "A queue can not undo an email. Make the effect idempotent, or use an outbox and let its reader be idempotent.",
        when=_is_effectively_once,
    ),
    _promised(
        "durable-process",
        '`durability="process"`, the default, on SQLite or LMDB',
        "local",
        "What `put`, `ack` or a transaction confirmed survives the death of the process, kill -9 included; a "
        "call that was cut off is there whole or not at all. `memory://` keeps nothing beyond its process.",
        when=_any_queue,
        proof=(
            "tests/crash/test_commit_edges.py::test_a_kill_at_any_edge_leaves_each_call_wholly_done_or_wholly_undone",
            "tests/chaos/test_smoke.py::test_no_promise_is_broken_while_clients_are_killed_and_things_break",
            "tests/crash/test_groups.py::test_a_grouped_commit_is_there_whole_or_not_at_all",
            "tests/integration/test_queue_processes.py::test_every_put_that_a_killed_producer_saw_return_is_there",
        ),
    ),
    _promised(
        "durable-power",
        '`durability="power"` on SQLite or LMDB',
        "local",
        "The same, and every commit is synced to the disk before it is confirmed; commits of threads that "
        "wait for each other share one sync. Tested are the setting and the grouping: the loss of power "
        "itself is not simulated, and a disk that lies about syncing is not found out.",
        when=_any_queue,
        proof=(
            "tests/unit/test_queue_lifetime.py::test_durability_is_the_stores_synchronous_setting",
            "tests/unit/test_guarantee_promises.py::test_lmdb_syncs_its_commits_with_power_durability_only",
            "tests/integration/test_grouped_commits.py::test_puts_of_threads_that_wait_for_each_other_share_one_commit",
        ),
    ),
    _promised(
        "power-loss-without-sync",
        'Loss of power with `durability="process"`',
        "out-of-scope",
        "SQLite (WAL, `synchronous=NORMAL`) can lose the last commits and stays intact. LMDB (`MDB_NOSYNC`) "
        'can lose them or be damaged: use `"power"` where the power may fail, and keep backups.',
        when=_any_queue,
    ),
    _promised(
        "point-to-point",
        "Point-to-point routing",
        "local",
        "Consumers of all processes on one store compete; a message has one lease at a time.",
        when=lambda c: not c.routing_policy.fanout,
        proof=(
            "src/localqueue/contracts/leases.py::LeaseContract::test_a_leased_message_is_not_handed_out_again",
            "src/localqueue/contracts/threads.py::ThreadContract::test_four_threads_claim_500_messages_exactly_once_each",
            "src/localqueue/contracts/processes.py::ProcessContract::test_four_threads_and_four_processes_claim_500_messages_exactly_once_each",
            "tests/integration/test_queue_processes.py::test_four_producers_and_four_consumers_pass_every_message_exactly_once",
        ),
    ),
    _promised(
        "publish-subscribe",
        "Publish/subscribe routing with subscribers",
        "at-least-once",
        "Every subscriber gets its own copy, or none does; with DropNewest or DropOldest a full subscriber "
        "loses its own. Copies are leased, retried and dead-lettered on their own. Who subscribes later does "
        "not see earlier messages.",
        when=lambda c: c.routing_policy.fanout and c.subscription_policy.subscriptions,
        proof=(
            "src/localqueue/contracts/fanout.py::FanoutContract::test_a_commit_into_ten_queues_of_which_one_is_full_stores_in_none",
            "src/localqueue/contracts/fanout.py::FanoutContract::test_each_copy_has_its_own_lease_and_fate",
            "src/localqueue/contracts/fanout.py::FanoutContract::test_no_publish_misses_a_subscriber_that_came_in_between",
            "tests/unit/test_queue_fanout.py::test_a_full_subscriber_keeps_the_message_from_all_of_them",
            "tests/unit/test_queue_fanout.py::test_subscribers_settle_retry_and_dead_letter_on_their_own",
            "tests/unit/test_queue_fanout.py::test_stored_subscribers_join_and_leave_while_the_topic_runs",
            "tests/unit/test_queue_fanout.py::test_a_dropping_topic_drops_per_subscriber",
        ),
    ),
    _promised(
        "push",
        "Push consumption with dispatch or notification",
        "local",
        "A put calls handlers or wakes consumers after the message is stored. Whatever is missed "
        "stays in the store for the next lease.",
        when=lambda c: (
            c.consumption_policy.pattern == "push" and (c.dispatch_policy.dispatches or c.notification_policy.notifies)
        ),
        proof=(
            "tests/unit/test_guarantees.py::test_push_with_a_wake_or_a_handler_is_accepted",
            "tests/unit/test_queue_notification.py::test_a_message_is_stored_before_anybody_is_notified",
            "tests/unit/test_guarantee_promises.py::test_a_missed_or_doubled_notification_costs_no_message",
            "tests/recipes/test_flow_recipes.py::test_local_push_with_a_notification",
        ),
    ),
    _promised(
        "dispatch-with-pull",
        "Dispatch with pull consumption",
        "local",
        "Handlers are called in this process after the message is stored, and the message still waits for a "
        "consumer: both see it, unless the handler settles it.",
        when=lambda c: (
            c.dispatch_policy.dispatches and not c.dispatcher_leases and c.consumption_policy.pattern == "pull"
        ),
        proof=(
            "tests/unit/test_guarantees.py::test_dispatch_beside_pull_is_accepted_as_local",
            "tests/unit/test_guarantee_promises.py::test_a_dispatched_message_still_waits_for_a_consumer",
            "tests/unit/test_queue_notification.py::test_a_handler_may_settle_what_it_was_called_for",
        ),
    ),
    _promised(
        "leasing-dispatch",
        "ThreadedDispatcher or WorkerPoolDispatcher",
        "at-least-once",
        "Handlers are called in background threads with messages leased from the store, so consumers of this and "
        "other processes compete with them. A message is acked when its handlers succeeded; a failure is recorded on "
        "it and it is delivered again, or dead-lettered after max_attempts. Leases are renewed meanwhile. With "
        "at-most-once delivery a failing handler loses its message.",
        when=lambda c: c.dispatcher_leases,
        proof=(
            "tests/unit/test_dispatch_delivery.py::test_a_message_is_leased_while_its_handler_runs_and_acked_after",
            "tests/unit/test_dispatch_delivery.py::test_a_failing_handler_is_recorded_on_the_message_which_is_tried_again",
            "tests/unit/test_dispatch_delivery.py::test_the_last_attempt_leaves_a_dead_letter",
            "tests/unit/test_dispatch_delivery.py::test_a_lease_is_renewed_while_its_handler_runs",
            "tests/unit/test_dispatch_delivery.py::test_at_most_once_delivery_loses_what_fails_and_says_so",
            "tests/unit/test_dispatch_process.py::test_messages_of_a_killed_dispatcher_are_delivered_by_the_next_one",
        ),
    ),
    _promised(
        "threaded-dispatch-order",
        "ThreadedDispatcher on a queue with no other consumer",
        "local",
        "One message after the other, in the order they are leased. One that failed goes behind, unless it has an "
        "ordering_key.",
        when=lambda c: c.dispatcher_leases and getattr(c.dispatch_policy, "kind", None) == "threaded",
        proof=(
            "tests/unit/test_dispatch_delivery.py::test_one_thread_handles_messages_one_at_a_time_and_in_order",
            "tests/unit/test_dispatch_delivery.py::test_a_failing_message_holds_up_its_own_key_and_no_other",
        ),
    ),
    _promised(
        "dispatch-shutdown",
        "Closing a queue with ThreadedDispatcher or WorkerPoolDispatcher",
        "local",
        "Handlers that run are finished and their messages settled, those that wait in the buffer are given back, and "
        "only then the store is closed. What was put and not taken stays in the store.",
        when=lambda c: c.dispatcher_leases,
        proof=(
            "tests/unit/test_dispatch_lifetime.py::test_close_finishes_what_runs_and_gives_back_what_is_buffered",
            "tests/unit/test_dispatch_lifetime.py::test_closing_the_queue_ends_its_dispatcher_before_the_store",
        ),
    ),
    _promised(
        "notification",
        "Any notification",
        "best-effort",
        "A wake-up is a hint: it may be lost or doubled, which costs latency and no message. A "
        "failing one raises from `put` and rolls nothing back.",
        when=lambda c: c.notification_policy.notifies,
        proof=(
            "tests/unit/test_guarantee_promises.py::test_a_missed_or_doubled_notification_costs_no_message",
            "tests/unit/test_queue_notification.py::test_a_failing_notification_reaches_the_caller_and_the_message_stays",
        ),
    ),
    _promised(
        "fifo-ready",
        "FifoReadyOrdering",
        "local",
        "Messages are leased in the order they became ready, by the clock of the store, whatever the clocks of its "
        "clients say. Consumers that "
        "run side by side may finish in another order, and a redelivered message goes behind.",
        when=lambda c: c.ordering_policy.guarantee == "fifo-ready",
        proof=(
            "src/localqueue/contracts/ordering.py::OrderingContract::test_messages_come_in_the_order_they_were_put",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_delayed_messages_are_promoted_in_the_order_they_fall_due",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_a_released_message_goes_behind_those_that_were_available_before",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_an_expired_message_takes_its_place_by_the_time_its_lease_ended",
        ),
    ),
    _promised(
        "priority",
        "PriorityOrdering",
        "local",
        "The highest priority that is ready is leased first. A steady flow of high priorities keeps low ones waiting.",
        when=lambda c: c.ordering_policy.priority_before_sequence,
        proof=(
            "src/localqueue/contracts/ordering.py::OrderingContract::test_priority_goes_first_on_a_real_clock",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_priority_goes_first_on_a_frozen_clock_and_in_one_batch",
            "tests/unit/test_queue_ordering.py::test_a_delayed_message_has_no_priority_until_it_is_due",
            "tests/unit/test_guarantee_promises.py::test_a_flow_of_high_priorities_keeps_a_low_one_waiting",
        ),
    ),
    _promised(
        "fifo-per-key",
        "PerKeyFifoOrdering",
        "local",
        "One message of a key is out at a time, in the order of the commits that put them, whatever the clocks of "
        "the hosts say. A retry or a delay holds up its own key; a message that left delivery lets the next one "
        "through. A message that waits for others (`after=`) does not hold its key.",
        when=lambda c: c.orders_by_key,
        proof=(
            "src/localqueue/contracts/ordering.py::OrderingContract::test_messages_of_a_key_are_never_in_flight_together",
            "src/localqueue/contracts/commit_order.py::CommitOrderContract::test_messages_of_an_ordering_key_come_in_the_order_of_their_commits",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_order_of_a_key_is_kept_over_release_expiry_and_delay",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_random_work_on_keys_never_has_two_of_a_key_in_flight",
            "src/localqueue/contracts/ordering.py::OrderingContract::test_every_way_out_frees_the_key",
            "src/localqueue/contracts/edges.py::EdgeContract::test_a_waiting_message_does_not_hold_its_ordering_key",
            "tests/unit/test_queue_ordering.py::test_a_retry_holds_up_its_own_key_and_no_other",
        ),
    ),
    _promised(
        "fifo-per-key-at-most-once",
        "PerKeyFifoOrdering with at-most-once delivery",
        "best-effort",
        "Messages of a key are handed out in order, but the next one does not wait for the handler of the one before.",
        when=lambda c: c.orders_by_key and c.delivery_policy.guarantee == "at-most-once",
        proof=(
            "tests/unit/test_guarantee_promises.py::test_at_most_once_hands_out_the_next_of_a_key_at_once_and_in_order",
            "src/localqueue/contracts/leases.py::LeaseContract::test_consume_frees_the_key_the_dedupe_key_and_what_waited",
        ),
    ),
    _promised(
        "fifo-per-key-dropping",
        "PerKeyFifoOrdering with DropNewest or DropOldest",
        "best-effort",
        "A dropped message leaves a gap in its key; those that remain keep their order.",
        when=lambda c: c.orders_by_key and c.backpressure.overflow.startswith("drop-"),
        proof=(
            "src/localqueue/contracts/ordering.py::OrderingContract::test_a_dropped_head_frees_its_key",
            "tests/unit/test_guarantee_promises.py::test_drop_newest_leaves_a_gap_in_its_key_and_keeps_the_order",
        ),
    ),
    _promised(
        "best-effort-ordering",
        "BestEffortOrdering",
        "best-effort",
        "No order is promised; every message is still delivered.",
        when=lambda c: c.ordering_policy.guarantee == "best-effort",
        proof=("tests/unit/test_guarantee_promises.py::test_best_effort_ordering_delivers_every_message",),
    ),
    _promised(
        "bounded",
        "A limit that blocks or rejects",
        "local",
        "The limit is checked in the transaction that inserts, so it is exact across all producers that were "
        "given it, in any process. It counts ready messages and those blocked behind their ordering key; "
        "leases and delays that end can take the queue past it.",
        when=lambda c: c.backpressure.maxsize > 0 and c.backpressure.overflow in _WAITING,
        proof=(
            "src/localqueue/contracts/capacity.py::CapacityContract::test_ready_and_blocked_count_and_nothing_else",
            "src/localqueue/contracts/capacity.py::CapacityContract::test_eight_threads_fill_a_queue_to_its_limit_and_not_beyond",
            "src/localqueue/contracts/processes.py::ProcessContract::test_eight_processes_fill_a_queue_to_its_limit_and_not_beyond",
            "src/localqueue/contracts/capacity.py::CapacityContract::test_a_limit_belongs_to_the_commit_that_names_it",
            "tests/unit/test_queue_backpressure.py::test_a_lease_that_ran_out_counts_again",
        ),
    ),
    _promised(
        "dropping",
        "DropNewest or DropOldest",
        "best-effort",
        "A full queue loses the message being put, or the oldest ready one (the oldest blocked one when none "
        "is ready), and counts it in `stats().dropped`. The delivery guarantee speaks about the messages that "
        "were kept.",
        when=lambda c: c.backpressure.overflow.startswith("drop-"),
        proof=(
            "src/localqueue/contracts/capacity.py::CapacityContract::test_drop_newest_refuses_the_new_message_and_counts_it",
            "src/localqueue/contracts/capacity.py::CapacityContract::test_drop_oldest_makes_room_and_counts_what_it_dropped",
            "src/localqueue/contracts/capacity.py::CapacityContract::test_drop_oldest_never_touches_a_leased_message",
            "tests/unit/test_guarantee_promises.py::test_drop_oldest_takes_a_blocked_message_when_none_is_ready",
        ),
    ),
    _promised(
        "throttling",
        "Throttling",
        "best-effort",
        "Producers are slowed, nothing is lost, and the queue may grow past the limit. Only a put that will "
        "not wait for its pause (`block=False`, or a shorter `timeout`) is refused.",
        when=lambda c: c.backpressure.overflow == "throttle",
        proof=(
            "tests/unit/test_queue_backpressure.py::test_throttling_slows_a_producer_and_loses_nothing",
            "tests/unit/test_queue_backpressure.py::test_a_throttled_producer_that_will_not_wait_that_long_is_told_full",
            "tests/unit/test_backpressure_policies.py::test_throttling_slows_more_the_further_the_queue_is_behind",
        ),
    ),
    _promised(
        "overflow-queue",
        "OverflowToQueue",
        "at-least-once",
        "What does not fit is stored in the other queue of the same store, for a consumer of that queue. A dedupe key "
        "that is live in either queue stops a second put.",
        when=lambda c: c.backpressure.overflow == "overflow-queue",
        proof=(
            "src/localqueue/contracts/capacity.py::CapacityContract::test_an_overflow_queue_takes_what_does_not_fit",
            "src/localqueue/contracts/capacity.py::CapacityContract::test_an_overflow_queue_dedupes_too",
            "tests/unit/test_queue_backpressure.py::test_overflow_goes_to_the_other_queue_and_nothing_is_lost",
        ),
    ),
    _promised(
        "remote-placement",
        "RemoteQueuePlacement",
        "descriptive",
        "Names a network boundary. Crossing it takes a store on a server: PostgreSQL, Redis or MongoDB.",
        when=lambda c: c.locality_policy.crosses_network_boundary,
        proof=("tests/unit/test_guarantees.py::test_remote_placement_only_names_the_boundary",),
    ),
    _promised(
        "distributed-coordination",
        "Replication, consensus or failover between stores",
        "out-of-scope",
        "A queue is as available as the one store it lives in.",
        when=lambda c: c.locality_policy.crosses_network_boundary,
    ),
    _promised(
        "overridden-descriptions",
        "A policy whose descriptive fields were overridden",
        "descriptive",
        "The fields are printed and compared with `semantics`; the store behaves the same.",
        when=lambda c: not c.lease_policy.uses_leases or not c.acknowledgement_policy.acknowledgements,
        proof=(
            "tests/unit/test_guarantees.py::test_overridden_descriptions_are_only_descriptive",
            "tests/unit/test_guarantee_promises.py::test_a_policy_that_describes_itself_otherwise_still_leases_and_acks",
        ),
    ),
    _promised(
        "codec",
        "JsonCodec, MsgpackCodec or BytesCodec",
        "local",
        "A value comes back equal and of the same shape, or `put` raises `PayloadError`.",
        when=lambda c: c.codec.name in ("json", "msgpack", "bytes"),
        proof=(
            "tests/unit/test_codecs.py::test_json_returns_what_it_was_given",
            "tests/unit/test_codecs.py::test_json_refuses_what_would_come_back_changed",
            "tests/unit/test_codecs.py::test_msgpack_returns_what_it_was_given",
            "tests/unit/test_codecs.py::test_msgpack_refuses_what_would_come_back_changed",
            "tests/unit/test_codecs.py::test_bytes_are_stored_as_they_are",
            "tests/unit/test_codecs.py::test_bytes_accept_nothing_but_bytes",
            "tests/unit/test_queue_payloads.py::test_json_comes_out_as_it_went_in",
        ),
    ),
    _promised(
        "pickle",
        "PickleCodec with payloads from an untrusted writer",
        "out-of-scope",
        "Unpickling runs the writer's code.",
        when=lambda c: c.codec.name == "pickle",
        proof=("tests/unit/test_codecs.py::test_pickle_demands_that_writers_are_trusted",),
    ),
)
