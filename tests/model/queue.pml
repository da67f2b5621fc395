/* What a queue promises about leases, settling, dependencies and order, for Spin to search.
 *
 * A commit of a store is one step here (d_step): that it is all or nothing is proved elsewhere, store by store. Between
 * two steps anybody else may come: workers that crash, workers that stall past their lease and come back with an old
 * token, an operator, and a clock that passes any timer at any moment. Time that passes changes nothing by itself; a
 * claim finds it. The comment at each rule says where src/localqueue/stores/engine has it.
 *
 * -DSCENE_x says which messages are put (scenes.pml), -DFAULT=x plants a fault. docs/model.md has the tables.
 */

#define MESSAGES 4
#define MAX_ATTEMPTS 2
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ACTS
#define ACTS 1 /* how often the operator intervenes, or a worker gives a message back unseen */
#endif
#ifndef FAULT
#define FAULT none
#endif

/* row.py: the states in its order, and how a message can be gone. */
#define READY 0
#define DELAYED 1
#define INFLIGHT 2
#define WAITING 3
#define BLOCKED 4
#define DEAD 5
#define EXPIRED 6
#define CANCELLED 7
#define ACKED 8
#define DROPPED 9
#define REFUSED 10 /* never stored: a duplicate, or after a message that was dropped */
#define NOWHERE 11

#define NO_LIMIT 0 /* of a life */
#define LIMITED 1
#define OVER 2

#define NOBODY 255

byte next; /* the message that is put next: ids ascend with the commits */
byte acts;

/* The row of a message. */
byte state[MESSAGES] = NOWHERE;
byte attempts[MESSAGES]; /* counts the current lease, and is its token */
byte forgiven[MESSAGES];
byte waiting_on[MESSAGES];
byte dependents[MESSAGES]; /* the edges: a bit for each message that waits for this one */
bool keyed[MESSAGES];      /* all of these share one ordering key */
bool deduped[MESSAGES];    /* all of these share one dedupe key */
byte life[MESSAGES];
bool due[MESSAGES]; /* its lease or its delay has run out, and no claim has looked since */

/* The lease that a worker remembers. */
byte on[WORKERS] = NOBODY;
byte token[WORKERS];

/* What really happened; only the properties ask. */
byte holder[MESSAGES] = NOBODY; /* the worker that was given the lease, while it lasts */
byte counted[MESSAGES];         /* deliveries since the put or the last requeue, without those given back unseen */
byte upstream[MESSAGES];        /* a bit for each message it was put after */
bool done[MESSAGES];            /* was acked */
bool stepped_out[MESSAGES];     /* waited or was requeued, so its place in line is not that of its put */

byte chosen, c, d, f, s, u, held, load, to; /* scratch of one step, zero between two */

#define EACH(option) :: option(0) :: option(1) :: option(2) :: option(3)
#define CHOOSE(is) if :: is(0) -> chosen = 0 :: is(1) -> chosen = 1 :: is(2) -> chosen = 2 :: is(3) -> chosen = 3 fi
#define ANY(is) (is(0) || is(1) || is(2) || is(3))
#define ALL(is) (is(0) && is(1) && is(2) && is(3))
#define SUM(is) (is(0) + is(1) + is(2) + is(3))
#define BIT(m) (1 << (m))

/* The faults: each must break a property. */
mtype = {
    none, token_not_compared, renewal_without_token, expiry_gives_the_token_back, requeue_counts_from_zero,
    ack_keeps_the_key, dead_letter_keeps_the_key, cancel_keeps_the_key, expiry_keeps_the_key, drop_keeps_the_key,
    expired_next_ends_the_line, newest_blocked_first, put_ignores_the_head, requeue_ignores_the_head,
    freed_dependent_ignores_the_head, waiting_holds_the_key, release_frees_dependents, dead_letter_frees_dependents,
    ack_wakes_no_dependent, release_forgives, expiry_ignores_the_limit, lease_frees_the_dedupe_key,
    requeue_ignores_the_dedupe_key, drop_takes_the_leased, full_queue_takes_more, load_overlooks_what_is_due,
    ack_leaves_its_timer, expiry_loses_the_message, claim_ignores_lives, leases_never_end
}
#define BROKEN(fault) (FAULT == fault)

#define LIVE(m) (state[m] < DEAD)
#define ENDED(m) (state[m] >= DEAD && state[m] <= CANCELLED)
#define HOLDS_KEY(m) (keyed[m] && (state[m] <= INFLIGHT || (BROKEN(waiting_holds_the_key) && state[m] == WAITING)))
#define HOLDS_DEDUPE_KEY(m) (deduped[m] && LIVE(m))
#define OUTLIVED(m) (life[m] == OVER && LIVE(m) && (state[m] != INFLIGHT || due[m]))
#define DUE(m) (due[m] || (OUTLIVED(m) && !BROKEN(claim_ignores_lives)))
#define EXHAUSTED(m) (attempts[m] - forgiven[m] >= MAX_ATTEMPTS)

/* ---- the properties ---- */

mtype = {
    nothing_is_lost, one_lease, stale_tokens_change_nothing, nothing_comes_back_after_its_ack, attempts_are_limited,
    lives_are_limited, upstreams_come_first, waiting_for_something, one_head, blocked_behind_a_head, order_of_puts,
    one_dedupe_holder, capacity_is_kept, leased_is_not_dropped
}

#define MUST(property, holds) if :: (holds) :: else -> printf("broken: %e\n", property); assert(false) fi

#define IS_THERE(m) ((m < next) == (state[m] != NOWHERE))
#define HAS_LEASE(me, m) (on[me] == m && token[me] == attempts[m])
#if WORKERS == 3
#define LEASES(m) (HAS_LEASE(0, m) + HAS_LEASE(1, m) + HAS_LEASE(2, m))
#else
#define LEASES(m) (HAS_LEASE(0, m) + HAS_LEASE(1, m))
#endif
#define LEASED_ONCE(m) (state[m] != INFLIGHT || LEASES(m) <= 1)
#define ACKED_ONES (done[0] * 1 + done[1] * 2 + done[2] * 4 + done[3] * 8)
#define OPEN(m) (upstream[m] & ~ACKED_ONES) /* upstreams that are not acked */
#define MAY_BE_DELIVERED(m) (!LIVE(m) || state[m] == WAITING || OPEN(m) == 0)
#define WAITS_FOR_SOMETHING(m) (state[m] != WAITING || (waiting_on[m] > 0 && OPEN(m) != 0))
#define IS_BLOCKED(m) (state[m] == BLOCKED)

/* What holds after every commit. What holds at a claim, a settle or a put stands there. */
inline check() {
#ifndef PROGRESS
    MUST(nothing_is_lost, ALL(IS_THERE));
    MUST(one_lease, ALL(LEASED_ONCE));
    MUST(upstreams_come_first, ALL(MAY_BE_DELIVERED));
    MUST(waiting_for_something, ALL(WAITS_FOR_SOMETHING));
    MUST(one_head, SUM(HOLDS_KEY) <= 1);
    MUST(blocked_behind_a_head, ANY(HOLDS_KEY) || !ANY(IS_BLOCKED));
    MUST(one_dedupe_holder, SUM(HOLDS_DEDUPE_KEY) <= 1);
#endif
    chosen = 0; c = 0; d = 0; f = 0; s = 0; u = 0; held = 0; load = 0; to = 0
}

/* ---- unit.py ---- */

#define NTH(f) (BROKEN(newest_blocked_first) -> MESSAGES - 1 - f : f)

/* Unit.free_key: the head left, and the next message of the key takes its place. One that has outlived its time does
 * not; then it is the turn of the one behind it. */
inline free_key() {
    f = 0;
    do
    :: f == MESSAGES -> break
    :: f < MESSAGES && state[NTH(f)] != BLOCKED -> f++
    :: f < MESSAGES && state[NTH(f)] == BLOCKED ->
        if
        :: life[NTH(f)] == OVER ->
            state[NTH(f)] = EXPIRED;
            if
            :: BROKEN(expired_next_ends_the_line) -> break
            :: else
            fi
        :: else -> state[NTH(f)] = READY; break
        fi
    od
}

#define KEEPS_KEY(to) \
    (BROKEN(ack_keeps_the_key) && to == ACKED || BROKEN(drop_keeps_the_key) && to == DROPPED || \
     BROKEN(dead_letter_keeps_the_key) && to == DEAD || BROKEN(cancel_keeps_the_key) && to == CANCELLED || \
     BROKEN(expiry_keeps_the_key) && to == EXPIRED)

/* Unit.move: into any state but inflight, which ends a lease. */
inline move(m, where) {
    to = where;
    held = HOLDS_KEY(m);
    state[m] = to;
    due[m] = false;
    holder[m] = NOBODY;
    if
    :: held && to >= DEAD && !KEEPS_KEY(to) -> free_key()
    :: else
    fi
}

/* Unit.delete: a message goes with all that belongs to it, but not those that wait for it. */
inline delete(m, where) {
    held = HOLDS_KEY(m);
    u = 0;
    do
    :: u < MESSAGES -> dependents[u] = dependents[u] & ~BIT(m); u++
    :: else -> break
    od;
    clear(m);
    state[m] = where;
    if
    :: held && !KEEPS_KEY(where) -> free_key()
    :: else
    fi
}

/* What is gone is all alike, which keeps the search small. */
inline clear(m) {
    attempts[m] = 0;
    forgiven[m] = 0;
    waiting_on[m] = 0;
    keyed[m] = false;
    deduped[m] = false;
    life[m] = NO_LIMIT;
    due[m] = false;
    holder[m] = NOBODY;
    counted[m] = 0;
    upstream[m] = 0;
    stepped_out[m] = false
}

/* Unit.head: whether another message is ready, delayed or inflight under the key. */
#define IS_BUSY(m) (keyed[m] && SUM(HOLDS_KEY) > HOLDS_KEY(m) && !IGNORES_HEAD(m))
#define IGNORES_HEAD(m) \
    (BROKEN(put_ignores_the_head) && state[m] == NOWHERE || BROKEN(requeue_ignores_the_head) && ENDED(m) || \
     BROKEN(freed_dependent_ignores_the_head) && state[m] == WAITING)

/* Unit.land and rules.landing: into delivery, or whatever stands in the way. */
#define LANDING(m, otherwise) \
    (life[m] == OVER -> EXPIRED : (waiting_on[m] > 0 -> WAITING : (IS_BUSY(m) -> BLOCKED : otherwise)))
inline land(m) {
    move(m, LANDING(m, READY))
}

/* Unit.holder: whether another live message has the dedupe key. */
#define FINDS_HOLDER(m) (HOLDS_DEDUPE_KEY(m) && !(BROKEN(lease_frees_the_dedupe_key) && state[m] == INFLIGHT))
#define IS_DUPLICATE(m) (deduped[m] && SUM(FINDS_HOLDER) > FINDS_HOLDER(m))

/* ---- settlement.py and dependencies.py ---- */

/* dependencies.free_dependents: they wait for one less, and those that wait for nothing more land. */
inline free_dependents(m) {
    d = 0;
    do
    :: d < MESSAGES ->
        if
        :: dependents[m] & BIT(d) ->
            waiting_on[d]--;
            if
            :: state[d] == WAITING && waiting_on[d] == 0 && !BROKEN(ack_wakes_no_dependent) -> land(d)
            :: else
            fi
        :: else
        fi;
        d++
    :: else -> break
    od;
    dependents[m] = 0
}

/* settlement.ack: gone as done, and what it held comes free. */
inline ack(m) {
    done[m] = true;
    delete(m, ACKED);
    free_dependents(m);
    due[m] = BROKEN(ack_leaves_its_timer)
}

/* settlement.leave_delivery: a release becomes a dead letter after the last attempt. */
inline release(m, otherwise) {
    if
    :: BROKEN(release_forgives) -> forgiven[m] = attempts[m]
    :: else
    fi;
    move(m, (state[m] == INFLIGHT && EXHAUSTED(m) -> DEAD : LANDING(m, otherwise)));
    if
    :: BROKEN(release_frees_dependents) -> free_dependents(m)
    :: else
    fi
}

inline dead_letter(m) {
    move(m, DEAD);
    if
    :: BROKEN(dead_letter_frees_dependents) -> free_dependents(m)
    :: else
    fi
}

/* A release with `forgive`: no handler has seen the message, so the delivery does not count. */
inline give_back(m) {
    forgiven[m]++;
    counted[m]--;
    land(m)
}

/* settlement._settle_one: a settle with a token changes the message only while that lease is current. */
#define CURRENT(me) (state[on[me]] == INFLIGHT && (attempts[on[me]] == token[me] || BROKEN(token_not_compared)))
#define SETTLE(change) \
    if \
    :: CURRENT(me) -> MUST(stale_tokens_change_nothing, holder[on[me]] == me); change \
    :: else \
    fi; \
    forget(me); \
    check()

inline forget(me) {
    on[me] = NOBODY;
    token[me] = 0
}

/* ---- timers.py ---- */

#define FALLEN(m) \
    (BROKEN(expiry_loses_the_message) && state[m] == INFLIGHT -> NOWHERE : (life[m] == OVER -> EXPIRED : READY))

/* timers._settle and rules.fall_due: what becomes of a message whose timer has passed. */
inline fall_due(m) {
    if
    :: BROKEN(expiry_gives_the_token_back) && state[m] == INFLIGHT -> attempts[m]--
    :: else
    fi;
    move(m, (state[m] == INFLIGHT && EXHAUSTED(m) && !BROKEN(expiry_ignores_the_limit) -> DEAD : FALLEN(m)))
}

/* timers.settle_due: the leases first, then the other timers. */
inline settle_due() {
    s = 0;
    do
    :: s < 2 * MESSAGES ->
        if
        :: DUE(s % MESSAGES) && (s >= MESSAGES || state[s] == INFLIGHT) -> fall_due(s % MESSAGES)
        :: else
        fi;
        s++
    :: else -> break
    od
}

#define TIMERS_PASSED ANY(DUE)

#define TIMER_PASSES(m) d_step { HAS_TIMER(m) && !due[m] -> printf("a timer of message %d passes\n", m); due[m] = true }
#define HAS_TIMER(m) (state[m] == DELAYED || (state[m] == INFLIGHT && !BROKEN(leases_never_end)))
#define LIFE_ENDS(m) d_step { life[m] == LIMITED -> printf("the life of message %d is over\n", m); life[m] = OVER }

active proctype Clock() {
end:
    do
    EACH(TIMER_PASSES)
    EACH(LIFE_ENDS)
    od
}

/* ---- leases.py ---- */

mtype = { claims, acks, releases, postpones, dead_letters, gives_back, renews, cancels, requeues }
#define TELL(me, does) printf("worker %d %e message %d, token %d\n", me, does, on[me], token[me])

/* leases.claim: the token is the number of the attempt. Which of the ready messages is at the front of the line is a
 * matter of priorities and times, and nothing here depends on it. */
inline claim(m) {
    MUST(nothing_comes_back_after_its_ack, !done[m]);
    MUST(lives_are_limited, life[m] != OVER);
    state[m] = INFLIGHT;
    attempts[m]++;
    holder[m] = me;
    on[me] = m;
    token[me] = attempts[m];
    TELL(me, claims);
    counted[m]++;
    MUST(attempts_are_limited, counted[m] <= MAX_ATTEMPTS);
    /* Those of the key that were put before it, and kept their place, have left delivery. */
    c = 0;
    do
    :: c < m -> MUST(order_of_puts, !(keyed[m] && keyed[c] && LIVE(c) && !stepped_out[c])); c++
    :: else -> break
    od
}

/* Another worker takes its place, and remembers nothing. */
inline crash() {
    if
    :: holder[on[me]] == me -> holder[on[me]] = NOBODY
    :: else
    fi;
    forget(me)
}

/* Idle workers are alike: it is the first of them that claims. */
#define IS_IDLE (on[me] == NOBODY && (me < 1 || on[0] != NOBODY) && (me < 2 || on[1] != NOBODY))
#define WORKS (on[me] != NOBODY)

#define IS_READY(m) (state[m] == READY)

proctype Worker(byte me) {
end:
    do
    /* leases.lease settles what is due, and claims when nothing is left. */
    :: d_step { IS_IDLE && TIMERS_PASSED -> printf("worker %d settles what is due\n", me); settle_due(); check() }
    :: atomic { IS_IDLE && !TIMERS_PASSED && ANY(IS_READY) -> CHOOSE(IS_READY); d_step { claim(chosen); check() } }
    :: d_step { WORKS -> TELL(me, acks); SETTLE(ack(on[me])) }
    :: d_step { WORKS -> TELL(me, releases); SETTLE(release(on[me], READY)) }
    :: d_step { WORKS -> TELL(me, postpones); SETTLE(release(on[me], DELAYED)) }
    :: d_step { WORKS -> TELL(me, dead_letters); SETTLE(dead_letter(on[me])) }
    :: d_step { WORKS && acts < ACTS -> acts++; TELL(me, gives_back); SETTLE(give_back(on[me])) }
    :: d_step { WORKS -> printf("worker %d crashes\n", me); crash() }
    od
}

/* operations.renew, which a worker does beside its handler. */
#define RENEWABLE(me) (CURRENT(me) || (BROKEN(renewal_without_token) && state[on[me]] == INFLIGHT))
#define RENEW(me) \
    d_step { on[me] != NOBODY && RENEWABLE(me) && due[on[me]] -> \
        TELL(me, renews); \
        MUST(stale_tokens_change_nothing, holder[on[me]] == me); due[on[me]] = false }

active proctype Heartbeat() {
end:
    do
    :: RENEW(0)
    :: RENEW(1)
#if WORKERS == 3
    :: RENEW(2)
#endif
    od
}

/* ---- operations.py, and settles without a token ---- */

/* operations._requeue: a fresh budget, but the attempts go on, so that no token comes twice. */
inline requeue(m) {
    if
    :: IS_DUPLICATE(m) && !BROKEN(requeue_ignores_the_dedupe_key) /* DedupeKeyInUse */
    :: else ->
        if
        :: BROKEN(requeue_counts_from_zero) -> attempts[m] = 0
        :: else
        fi;
        forgiven[m] = attempts[m];
        counted[m] = 0;
        stepped_out[m] = true;
        life[m] = (life[m] == OVER -> NO_LIMIT : life[m]);
        land(m)
    fi
}

#define IS_HEAD(m) (state[m] <= INFLIGHT)
#define IS_STORED(m) (LIVE(m) || ENDED(m))
#define ACT(is, does, change) \
    atomic { acts < ACTS && ANY(is) -> \
        CHOOSE(is); d_step { printf("the operator %e message %d\n", does, chosen); acts++; change; check() } }

active proctype Operator() {
end:
    do
    :: ACT(IS_STORED, acks, ack(chosen))
    :: ACT(IS_HEAD, releases, release(chosen, READY))
    :: ACT(LIVE, cancels, move(chosen, CANCELLED))
    :: ACT(ENDED, requeues, requeue(chosen))
    od
}

/* ---- arrivals.py and room.py ---- */

#include "scenes.pml"

#define GONE(m) (state[m] == DROPPED || state[m] == REFUSED)
#define GONE_ONES (GONE(0) * 1 + GONE(1) * 2 + GONE(2) * 4 + GONE(3) * 8)

/* arrivals._enqueue_one, once there is room. */
inline put(m) {
    expire_holders(m);
    if
    :: IS_DUPLICATE(m) || (upstream[m] & GONE_ONES) -> clear(m); state[m] = REFUSED
    :: else -> wait_for(m); land(m)
    fi;
    next++
}

/* arrivals._find_duplicate: a holder of the dedupe key that has outlived its time leaves delivery, and its key. */
inline expire_holders(m) {
    u = 0;
    do
    :: u < m ->
        if
        :: deduped[m] && deduped[u] && OUTLIVED(u) -> fall_due(u)
        :: else
        fi;
        u++
    :: else -> break
    od
}

/* dependencies.wait_for: count the upstream messages that are not acked yet. */
inline wait_for(m) {
    u = 0;
    do
    :: u < m ->
        if
        :: (upstream[m] & BIT(u)) && state[u] != ACKED ->
            dependents[u] = dependents[u] | BIT(m);
            waiting_on[m]++;
            stepped_out[m] = true
        :: else
        fi;
        u++
    :: else -> break
    od
}

/* Room.load: ready and blocked messages; what is due counts as what it has become. */
#define COUNTS(m) (state[m] == READY || IS_BLOCKED(m))
#define WILL_BE_READY(m) (life[m] != OVER && !(state[m] == INFLIGHT && EXHAUSTED(m)))
#define LOADS(m) (LIVE(m) && (DUE(m) -> WILL_BE_READY(m) : COUNTS(m)))
#define LOAD SUM(LOADS)
#define FOUND_LOAD (BROKEN(load_overlooks_what_is_due) -> SUM(COUNTS) : LOAD)

/* Room.oldest: any ready message may be the one that became available first; if there is none, the first blocked one. */
#define IS_BEHIND(m) (IS_BLOCKED(0) && 0 < m || IS_BLOCKED(1) && 1 < m || IS_BLOCKED(2) && 2 < m)
#define OLDEST(m) (IS_READY(m) || (!ANY(IS_READY) && IS_BLOCKED(m) && !IS_BEHIND(m)))
#define IS_CHOSEN(m) (OLDEST(m) || (BROKEN(drop_takes_the_leased) && state[m] == INFLIGHT))

/* arrivals._drop_oldest: the timers that have passed are settled first. */
inline drop(m) {
    MUST(leased_is_not_dropped, state[m] != INFLIGHT);
    if
    :: BROKEN(full_queue_takes_more)
    :: else -> delete(m, DROPPED)
    fi
}

#define IS_FULL (FOUND_LOAD >= LIMIT)

active proctype Producer() {
end:
    do
    :: atomic { next < PUTS && (!IS_FULL || !TIMERS_PASSED) ->
        options();
        if
        :: IS_FULL -> CHOOSE(IS_CHOSEN); chosen++
        :: else
        fi;
        d_step {
            load = LOAD;
            if
            :: chosen > 0 -> printf("message %d is dropped\n", chosen - 1); drop(chosen - 1)
            :: else
            fi;
            put(next);
            printf("message %d is put, and is in state %d\n", next - 1, state[next - 1]);
            MUST(capacity_is_kept, LOAD <= LIMIT || LOAD <= load);
            check()
        } }
    od
}

/* As long as workers claim and settle, every message ends, or waits for one that ended without an ack. */
#ifdef PROGRESS
active proctype Idle() { /* a world that never ends: Spin does not count one that stands still as fair */
    do
    :: next <= PUTS
    od
}

#define AT_REST(m) (m >= PUTS || state[m] == WAITING || (state[m] >= DEAD && state[m] != NOWHERE))
ltl progress { <>[] (AT_REST(0) && AT_REST(1) && AT_REST(2) && AT_REST(3)) }
#endif

init {
    atomic {
        run Worker(0);
        run Worker(1)
#if WORKERS == 3
        ; run Worker(2)
#endif
    }
}
