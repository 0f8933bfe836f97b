"""External queues: messages for clients whose queue is in a backend outside the log (journal, Redis, PostgreSQL).

The way of one QoS 1 message to a client with a queue in Redis. Everything but `append_worker` and the store is pure:

    inbound              PUBLISH: judged, a plan says that one of its clients has an external queue
    intake               joins the open batch
      external_queues    `take`: gets an outbox number; the batch gets an outbox record
                         ── commit, receipt ──
    exchange             carries out the effect:
      deferred_acks      `defer`: the PUBACK waits, and with it all later acknowledgements of that connection
      external_queues    `committed`: one pending append for each such client; the worker of their backend is called
    broker/external/
      append_worker      `next_batches` ─▶ QueueStore.append ─▶ `appended`           (storage/redis)
      external_queues    `appended`: the ExternalQueue of a connected client gets the message with its serial
      deferred_acks      when all queues of the message have answered, its PUBACK may leave
    delivery             pumps the client: PUBLISH; its PUBACK is gathered and told to the store by the worker
                         ── a later commit removes the outbox record ──

Read in this order: `durable/queues/external_queue` (one queue), `external_queues`, `deferred_acks`, then
`broker/external`. `durable/queues/outbox` says what a crash in between leaves, and why nothing is lost by it.
"""
