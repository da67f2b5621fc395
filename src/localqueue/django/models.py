"""No models: the queue has tables of its own. Django tells only applications with this module that it has migrated."""
