"""What is searched: the scenes, and the faults that must be found."""

from __future__ import annotations

from tests.model.search import Fault, Scene

#: Every state of these is looked at by `./script/model`.
SCENES = (
    Scene("lease", acts=3, workers=3, large=True),
    Scene("order", acts=2, large=True),
    Scene("line", acts=2, large=True),
    Scene("after", acts=2, large=True),
    Scene("dedupe", acts=2, large=True),
    Scene("bounded", acts=2, large=True),
    Scene("mixed", large=True),
    Scene("any", large=True),
    Scene("order", progress=True),
    Scene("circle", acts=2, progress=True),
    Scene("after", acts=0, progress=True),
    Scene("dedupe", acts=0, progress=True),
    Scene("bounded", acts=0, progress=True),
)

#: The same with fewer acts of the operator, for every run of the tests.
QUICK = (
    *(Scene(name) for name in ("lease", "order", "line", "after", "dedupe", "bounded")),
    Scene("order", acts=0, progress=True),
    Scene("circle", progress=True),
)

_LEASE, _ORDER, _AFTER, _DEDUPE, _BOUNDED, _MIXED = (
    Scene(name) for name in ("lease", "order", "after", "dedupe", "bounded", "mixed")
)

FAULTS = (
    Fault("token_not_compared", _LEASE, "stale_tokens_change_nothing"),
    Fault("renewal_without_token", _LEASE, "stale_tokens_change_nothing"),
    Fault("expiry_gives_the_token_back", _LEASE, "one_lease"),
    Fault("requeue_counts_from_zero", _LEASE, "one_lease"),
    Fault("release_forgives", _LEASE, "attempts_are_limited"),
    Fault("expiry_ignores_the_limit", _LEASE, "attempts_are_limited"),
    Fault("ack_leaves_its_timer", _LEASE, "nothing_comes_back_after_its_ack"),
    Fault("expiry_loses_the_message", _LEASE, "nothing_is_lost"),
    Fault("leases_never_end", Scene("order", acts=0, progress=True), "progress"),
    Fault("claim_ignores_lives", _ORDER, "lives_are_limited"),
    Fault("put_ignores_the_head", _ORDER, "one_head"),
    Fault("requeue_ignores_the_head", _ORDER, "one_head"),
    Fault("freed_dependent_ignores_the_head", _MIXED, "one_head"),
    Fault("newest_blocked_first", _ORDER, "order_of_puts"),
    Fault("ack_keeps_the_key", _ORDER, "blocked_behind_a_head"),
    Fault("dead_letter_keeps_the_key", _ORDER, "blocked_behind_a_head"),
    Fault("cancel_keeps_the_key", _ORDER, "blocked_behind_a_head"),
    Fault("expiry_keeps_the_key", _ORDER, "blocked_behind_a_head"),
    Fault("expired_next_ends_the_line", _ORDER, "blocked_behind_a_head"),
    Fault("drop_keeps_the_key", _BOUNDED, "order_of_puts"),
    Fault("waiting_holds_the_key", Scene("circle", progress=True), "progress"),
    Fault("release_frees_dependents", _AFTER, "upstreams_come_first"),
    Fault("dead_letter_frees_dependents", _AFTER, "upstreams_come_first"),
    Fault("ack_wakes_no_dependent", _AFTER, "waiting_for_something"),
    Fault("lease_frees_the_dedupe_key", _DEDUPE, "one_dedupe_holder"),
    Fault("requeue_ignores_the_dedupe_key", _DEDUPE, "one_dedupe_holder"),
    Fault("drop_takes_the_leased", _BOUNDED, "leased_is_not_dropped"),
    Fault("full_queue_takes_more", _BOUNDED, "capacity_is_kept"),
    Fault("load_overlooks_what_is_due", _BOUNDED, "capacity_is_kept"),
)
