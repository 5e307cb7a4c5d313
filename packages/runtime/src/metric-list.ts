type Type = 'counter' | 'gauge' | 'histogram';
type Service = 'api' | 'dashboard' | 'delivery-worker' | 'scheduler' | 'device-gateway';

/** One metric, as its page describes it and as it is registered. */
export interface Metric {
  type: Type;
  labels: readonly string[];
  /** Services that expose it. */
  services: readonly Service[];
  /** Meaning, in one line; also the help text of `/metrics`. */
  help: string;
}

/** Services that send, end or receive pushes. */
const ALL: readonly Service[] = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];
const WORKER: readonly Service[] = ['delivery-worker'];
const GATEWAY: readonly Service[] = ['device-gateway'];

/**
 * All metrics of Carillon by name; docs/run/metrics.md is made from this list. Label values come from small fixed sets: never
 * a token, key, topic or address. Only `carillon_app_pending_batches` has ids, of ten apps.
 */
export const METRICS = {
  carillon_build_info: {
    type: 'gauge',
    labels: ['version', 'service'],
    services: [...ALL, 'dashboard'],
    help: 'Always 1: release and service of the process',
  },
  carillon_http_request_seconds: {
    type: 'histogram',
    labels: ['route', 'status'],
    services: ['api'],
    help: 'Duration of requests by method and path template; route none: no route of the API',
  },
  carillon_console_request_seconds: {
    type: 'histogram',
    labels: ['route', 'status'],
    services: ['dashboard'],
    help: 'Duration of requests to the console by method and path template, without event streams',
  },
  carillon_pushes_accepted_total: {
    type: 'counter',
    labels: [],
    services: ['api'],
    help: 'Pushes that POST /push has stored, without responses repeated for an Idempotency-Key',
  },
  carillon_recipients_total: {
    type: 'counter',
    labels: ['channel', 'outcome'],
    services: ALL,
    help:
      'Recipients that have ended, by the channel of their batch and their final outcome, counted by the process that ' +
      'ended them',
  },
  carillon_delivery_seconds: {
    type: 'histogram',
    labels: ['channel'],
    services: WORKER,
    help:
      'Time from acceptance, or from the due time, to the receipt of a connected device; receipts from the inbox do not ' +
      'count',
  },
  carillon_works_total: {
    type: 'counter',
    labels: ['end'],
    services: WORKER,
    help: 'Runs of batches by their end: settled, given back, lost, not taken',
  },
  carillon_provider_answers_total: {
    type: 'counter',
    labels: ['channel', 'kind'],
    services: WORKER,
    help: 'Responses of providers by kind: sent, gone, rejected, retry, refused',
  },
  carillon_webhook_requests_total: {
    type: 'counter',
    labels: ['result'],
    services: WORKER,
    help: 'Requests to receivers of webhooks by result: accepted, failed, gone (410)',
  },
  carillon_webhook_events_total: {
    type: 'counter',
    labels: [],
    services: WORKER,
    help: 'Events that receivers of webhooks have accepted; repeated events count again',
  },
  carillon_webhooks: {
    type: 'gauge',
    labels: ['state'],
    services: ['scheduler'],
    help:
      'Webhooks by state: on, failing (the last request failed), off (after a 410, or five days of failures); those that ' +
      'their app has turned off do not count',
  },
  carillon_webhook_events_dropped_total: {
    type: 'counter',
    labels: [],
    services: ['scheduler'],
    help: 'Events of webhooks, also of those that are off, that were not reported before their push was removed',
  },
  carillon_provider_circuits: {
    type: 'gauge',
    labels: ['channel', 'state'],
    services: WORKER,
    help:
      'Circuit breakers of the provider servers in use, one for each credential and server: closed, open, half-open ' +
      '(the next request is a probe)',
  },
  carillon_inbox_rows_written_total: {
    type: 'counter',
    labels: [],
    services: WORKER,
    help: 'Pushes stored in inboxes, for devices that were offline or did not acknowledge in time',
  },
  carillon_inbox_rows_drained_total: {
    type: 'counter',
    labels: [],
    services: ['device-gateway', 'delivery-worker'],
    help: 'Pushes removed from inboxes at their acknowledgement',
  },
  carillon_gateway_connections: {
    type: 'gauge',
    labels: [],
    services: GATEWAY,
    help: 'Connected devices',
  },
  carillon_gateway_max_connections: {
    type: 'gauge',
    labels: [],
    services: GATEWAY,
    help: 'MAX_CONNECTIONS of the process',
  },
  carillon_gateway_waiting_bytes: {
    type: 'gauge',
    labels: [],
    services: GATEWAY,
    help: 'Bytes buffered in sockets',
  },
  carillon_gateway_connects_total: {
    type: 'counter',
    labels: ['result'],
    services: GATEWAY,
    help: 'Connection attempts by result',
  },
  carillon_gateway_closes_total: {
    type: 'counter',
    labels: ['reason'],
    services: GATEWAY,
    help: 'Closed connections by reason',
  },
  carillon_gateway_published_total: {
    type: 'counter',
    labels: ['from'],
    services: GATEWAY,
    help: 'Pushes written to sockets: live, or from the inbox',
  },
  carillon_gateway_acknowledged_total: {
    type: 'counter',
    labels: ['when'],
    services: GATEWAY,
    help: 'PUBACKs: in time for the worker, or recorded by the gateway',
  },
  carillon_gateway_answers_total: {
    type: 'counter',
    labels: ['answer'],
    services: GATEWAY,
    help: 'Delivery results sent to workers, one per recipient',
  },
  carillon_pending_batches: {
    type: 'gauge',
    labels: ['channel'],
    services: ['scheduler'],
    help: 'Batches that workers have or could have now, up to 100000; every scheduler counts all',
  },
  carillon_oldest_pending_batch_seconds: {
    type: 'gauge',
    labels: ['channel'],
    services: ['scheduler'],
    help: 'Age of the oldest pending batch that no worker has',
  },
  carillon_deferred_batches: {
    type: 'gauge',
    labels: ['channel'],
    services: ['scheduler'],
    help: 'Batches that wait for a retry, a fallback, a provider or the end of a pause, up to 100000',
  },
  carillon_app_pending_batches: {
    type: 'gauge',
    labels: ['app'],
    services: ['scheduler'],
    help: 'Pending batches of the ten apps with most, paused apps included; a lower bound from 20000 of a channel on',
  },
  carillon_idle_devices: {
    type: 'gauge',
    labels: [],
    services: ['scheduler'],
    help:
      'Devices that were not seen for 90 days, up to 100000 of an app, counted once an hour, 0 before: take the highest ' +
      'of the schedulers',
  },
  carillon_unserved_queue_age_seconds: {
    type: 'gauge',
    labels: ['queue'],
    services: ['scheduler'],
    help: 'Age of the oldest waiting job of a queue without a worker; 0 while it has one',
  },
  carillon_redis_memory_used_ratio: {
    type: 'gauge',
    labels: [],
    services: ['scheduler'],
    help:
      'Used memory of the Redis of the queues (of a cluster, of the fullest primary) divided by its maxmemory; 0 ' +
      'without one',
  },
  carillon_reconciled_total: {
    type: 'counter',
    labels: ['what'],
    services: ['scheduler'],
    help: 'Items that ticks found, by kind',
  },
  carillon_batched_writes_total: {
    type: 'counter',
    labels: ['operation'],
    services: ALL,
    help: 'Round trips to MongoDB or Redis that calls of the same moment shared, reads too',
  },
  carillon_batched_items_total: {
    type: 'counter',
    labels: ['operation'],
    services: ALL,
    help: 'Calls that shared the round trips of carillon_batched_writes_total',
  },
  carillon_redis_command_failures_total: {
    type: 'counter',
    labels: [],
    services: [...ALL, 'dashboard'],
    help: 'Redis commands that failed: an error reply, a timeout, or no connection',
  },
  carillon_mongodb_command_failures_total: {
    type: 'counter',
    labels: [],
    services: [...ALL, 'dashboard'],
    help:
      "Calls to MongoDB that failed after the driver's retries: an error reply, a timeout, or no connection; duplicate " +
      'keys do not count',
  },
} as const satisfies Record<string, Metric>;

/** Names of the metrics of a type. */
export type MetricName<T extends Type = Type> = {
  [Name in keyof typeof METRICS]: (typeof METRICS)[Name]['type'] extends T ? Name : never;
}[keyof typeof METRICS];
