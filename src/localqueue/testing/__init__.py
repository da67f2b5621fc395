"""Help for the tests of an application: queues in memory, a clock to move, work done on the spot, and assertions.

    def test_signing_up_sends_a_mail(localqueue_store):
        sign_up("ada@example.com")

        assert_enqueued("mails", {"to": "ada@example.com"})
        drain("mails", send_mail, raising=True)

The fixtures come with pytest by themselves; `memory_store()` is the same for other test runners. What proves a store or
an adapter is in `localqueue.contracts`. A name is loaded when it is first used, so that the plugin costs nothing where
nobody asks for its fixtures.
"""

from localqueue._exports import lazy

_HOMES = {
    "localqueue.testing.assertions": ("assert_enqueued", "assert_not_enqueued"),
    "localqueue.testing.clock": ("Clock",),
    "localqueue.testing.store": ("memory_store", "use_store"),
    "localqueue.testing.work": ("drain", "drain_async", "inline"),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
