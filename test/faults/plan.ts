/** A fault and the tests that apply it. */
export interface PlannedFault {
  fault: string;
  /** Test files; a `main.ts` is a program that reports by its exit code. Several faults may share a file. */
  files: readonly string[];
  /** Why no file applies the fault. */
  reason?: string;
}

const ACCEPTED_PUSH = 'test/faults/accepted-push-is-durable.test.ts';
const KILLED_API = 'test/faults/api-killed-around-the-commit-accepts-all-or-nothing.test.ts';
const KILLED_WORKER = 'test/faults/killed-worker-loses-no-push.test.ts';
const KILLED_SENDING_WORKER = 'test/providers/killed-worker-sends-few-duplicates.test.ts';
const KILLED_GATEWAY = 'test/faults/killed-gateway-loses-no-push.test.ts';
const UNRESPONSIVE_REDIS = 'test/faults/unresponsive-redis-loses-no-push.test.ts';
const PROCESS_ENDS_ITSELF = 'test/faults/process-that-ends-itself-loses-no-push.test.ts';
const KILLED_AT_FAILPOINT = 'test/faults/process-killed-at-a-failpoint-loses-no-push.test.ts';
const SENDING_WORKER_AT_FAILPOINT =
  'test/faults/worker-killed-at-a-failpoint-repeats-little.test.ts';
const GOAWAYS = 'test/providers/goaways-and-drops-lose-no-push.test.ts';

/**
 * The faults under which the guarantees are tested, in the order of their numbers in docs/guarantees.md, from 1.
 * `npm run faults` runs their tests.
 */
export const FAULT_PLAN: readonly PlannedFault[] = [
  { fault: 'API killed before it stores the push', files: [KILLED_API] },
  {
    fault: 'API killed between the batches and the commit',
    files: [KILLED_API, 'test/guarantees/g2-retry-takes-over-from-a-dead-process.test.ts'],
  },
  { fault: 'API killed after the commit, before the response', files: [KILLED_API] },
  { fault: 'API killed after the commit, before the job', files: [KILLED_API] },
  {
    fault: 'delivery-worker killed during a page of a fan-out',
    files: [KILLED_WORKER, KILLED_AT_FAILPOINT],
  },
  { fault: 'delivery-worker killed after the inbox rows', files: [KILLED_AT_FAILPOINT] },
  {
    fault: 'delivery-worker killed after the dispatch or a request, before the outcome is saved',
    files: [KILLED_WORKER, KILLED_SENDING_WORKER, KILLED_AT_FAILPOINT, SENDING_WORKER_AT_FAILPOINT],
  },
  { fault: 'delivery-worker killed after some batches of a push', files: [KILLED_WORKER] },
  {
    fault: 'delivery-worker killed twice on one batch, three times in one push',
    files: [KILLED_WORKER, KILLED_SENDING_WORKER],
  },
  {
    fault: 'scheduler killed when a push is due',
    files: ['test/guarantees/g6-g7-pushes-keep-to-their-times.test.ts', KILLED_AT_FAILPOINT],
  },
  {
    fault: 'all services down when 1,000 pushes are due; with them MongoDB and Redis',
    files: [
      'test/faults/pushes-due-during-an-outage-are-sent-once.test.ts',
      'test/guarantees/g6-g7-pushes-keep-to-their-times.test.ts',
    ],
  },
  { fault: 'gateway killed after a PUBLISH', files: [KILLED_GATEWAY, KILLED_AT_FAILPOINT] },
  {
    fault: 'gateway ended between a PUBACK and its record',
    files: [PROCESS_ENDS_ITSELF, KILLED_AT_FAILPOINT],
  },
  {
    fault: 'gateway killed or stopped during an inbox or a drain',
    files: [KILLED_GATEWAY, KILLED_AT_FAILPOINT],
  },
  {
    fault: 'delivery-worker or gateway suspended for three leases',
    files: [
      'test/faults/frozen-process-is-fenced.test.ts',
      'test/providers/frozen-worker-sends-few-duplicates.test.ts',
    ],
  },
  {
    fault: 'Redis emptied three times during a fan-out',
    files: ['test/faults/lost-redis-loses-no-push.test.ts'],
  },
  {
    fault: 'Redis killed for a minute',
    files: ['test/faults/redis-outage-rejects-no-push.test.ts'],
  },
  {
    fault: 'Redis suspended; half-open connections to it',
    files: [
      UNRESPONSIVE_REDIS,
      'packages/presence/test/silent-servers-are-left-soon.test.ts',
      'packages/queue/test/queue-opened-while-redis-stalls-works-afterwards.test.ts',
    ],
  },
  { fault: 'Redis out of memory', files: [UNRESPONSIVE_REDIS] },
  {
    fault: 'MongoDB killed or suspended',
    files: [
      'test/faults/mongodb-outage-rejects-no-device.test.ts',
      'test/guarantees/g15-api-responds-within-three-seconds.test.ts',
      'test/official-clients/outage-does-not-change-device-tokens.test.ts',
      ACCEPTED_PUSH,
    ],
  },
  {
    fault: 'connection to MongoDB cut around a write',
    files: [
      'test/faults/cut-mongodb-connection-accepts-nothing.test.ts',
      'packages/store/test/a-lost-connection-is-never-reported-as-success.test.ts',
    ],
  },
  {
    fault: 'full disk of MongoDB or Redis (as root)',
    files: [
      'test/faults/full-disk-of-mongodb-accepts-nothing-by-half.test.ts',
      'test/faults/full-disk-of-redis-rejects-no-push.test.ts',
    ],
  },
  {
    fault: 'replica set: the primary steps down, is killed, or loses its secondaries',
    files: ['test/faults/replica-set-failover-loses-no-push.test.ts'],
  },
  {
    fault: 'a clock five minutes off that jumps, in each service; a second in MongoDB',
    files: [
      'test/faults/wrong-clock-sends-nothing-early.test.ts',
      'packages/queue/test/wrong-clocks-stop-no-queue.test.ts',
    ],
  },
  {
    fault: 'partitions in one direction between a service and a server',
    files: ['test/faults/one-way-partition-loses-no-push.test.ts'],
  },
  {
    fault: 'APNs: 429, 503, GOAWAY, silence, resets, expired tokens',
    files: [
      GOAWAYS,
      'test/providers/expired-tokens-and-changed-credentials.test.ts',
      'services/delivery-worker/test/apns/connection-failures-lose-no-push.test.ts',
    ],
  },
  {
    fault: 'FCM: 429 with `Retry-After`, 500, silence, resets',
    files: [
      GOAWAYS,
      'test/providers/retry-after-is-honoured.test.ts',
      'services/delivery-worker/test/fcm/connection-failures-lose-no-push.test.ts',
    ],
  },
  {
    fault: 'Web Push: redirects, endless and slow responses, private addresses',
    files: [
      GOAWAYS,
      'services/delivery-worker/test/web-push/hostile-push-services-are-contained.test.ts',
    ],
  },
  {
    fault: 'a recipient, a payload or a response that ends or blocks its worker each time',
    files: [
      'test/faults/recipient-that-blocks-its-workers-fails-alone.test.ts',
      'test/faults/recipient-that-ends-its-workers-fails-alone.test.ts',
      'test/faults/response-that-throws-fails-its-recipient-alone.test.ts',
      'test/faults/poison-over-providers-fails-alone.test.ts',
    ],
  },
  {
    fault: 'each kind of job run twice, and five times at once',
    files: ['test/faults/job-that-runs-again-changes-nothing.test.ts'],
  },
  {
    fault: 'all devices cut at once',
    files: ['test/gateway/all-devices-reconnect-after-a-cut.test.ts'],
  },
  {
    fault: 'devices that read slowly or not at all',
    files: ['test/gateway/slow-devices-do-not-block-others.test.ts'],
  },
  {
    fault: 'a device that connects twice, again and again',
    files: ['test/end-to-end/latest-connection-wins.test.ts'],
  },
  {
    fault: 'pushes of one collapse key at once, with kills',
    files: [
      'test/guarantees/g9-newest-push-of-a-collapse-key-wins.test.ts',
      'test/guarantees/g9-older-push-does-not-follow-a-newer-one.test.ts',
    ],
  },
  {
    fault: 'deletion and expiry during a delivery',
    files: [
      'test/guarantees/g8-deleted-push-is-not-sent.test.ts',
      'test/providers/deleted-and-expired-pushes-stop.test.ts',
    ],
  },
  {
    fault: 'restart of each service in turn',
    files: ['test/faults/rolling-restart-fails-no-request.test.ts'],
  },
  {
    fault: 'a blocked event loop, an unhandled rejection, too little memory',
    files: [PROCESS_ENDS_ITSELF, 'test/faults/small-memory-is-enough-for-large-pushes.test.ts'],
  },
  {
    fault: 'random faults under load',
    files: ['test/soak/half-a-minute-of-faults-breaks-no-guarantee.test.ts', 'test/soak/main.ts'],
  },
  {
    fault: 'a job that is invalid or of another release',
    files: ['test/faults/invalid-job-is-refused.test.ts'],
  },
  {
    fault: 'Redis back without its last seconds',
    files: [
      'test/faults/lost-redis-loses-no-push.test.ts',
      'test/faults/redis-without-its-last-seconds-loses-no-push.test.ts',
    ],
  },
  {
    fault: 'single pushes whose shared job is lost',
    files: ['test/faults/single-pushes-outlive-their-job.test.ts', KILLED_AT_FAILPOINT],
  },
  {
    fault: 'response of MongoDB to a write of the API lost',
    files: ['test/faults/lost-mongodb-response-makes-no-second-push.test.ts'],
  },
  {
    fault: 'each response of MongoDB later by 300 ms, by 500 ms, and by 1 s',
    files: ['test/faults/slow-mongodb-loses-no-push.test.ts'],
  },
  {
    fault:
      'webhooks: Redis emptied, MongoDB and delivery-worker killed in the middle of the reports',
    files: ['test/faults/webhooks-lose-no-event.test.ts'],
  },
  {
    fault: 'receivers of webhooks that are dead, slow or hostile',
    files: [
      'packages/webhooks/test/a-dead-receiver-delays-no-other-address.test.ts',
      'packages/webhooks/test/hostile-receivers-are-contained.test.ts',
    ],
  },
  {
    fault: 'clients that repeat their requests faster than a slow MongoDB serves them',
    files: [
      'test/faults/repeated-requests-end-an-overload.test.ts',
      'services/api/test/an-overload-refuses-only-those-with-many-requests.test.ts',
    ],
  },
  {
    fault: 'delivery-worker killed between the receipts of a batch and its settlement',
    files: ['test/faults/receipts-of-a-killed-worker-have-their-time.test.ts'],
  },
  {
    fault:
      'API suspended before it inserts a push with an idempotency key; killed between two devices of one provider address',
    files: [
      'test/faults/api-suspended-before-its-insert-makes-no-second-push.test.ts',
      'test/faults/api-killed-after-an-address-gives-it-to-one-device.test.ts',
    ],
  },
  {
    fault: 'replica set: a member frozen, lagging or cut off, a clock ahead, a claim undone',
    files: [
      'test/topologies/frozen-members-of-a-replica-set-lose-no-push.test.ts',
      'test/topologies/new-primary-with-a-clock-ahead-loses-no-push.test.ts',
      'test/topologies/new-primary-with-a-clock-ahead-ends-leases-early.test.ts',
      'test/topologies/primary-cut-off-with-its-clients-loses-no-push.test.ts',
      'test/topologies/rolled-back-claim-is-made-again.test.ts',
    ],
  },
  {
    fault: 'primary of Redis killed, suspended or replaced on request, behind Sentinels',
    files: ['test/topologies/failover-by-sentinels-loses-no-push.test.ts'],
  },
  {
    fault:
      'Redis Cluster: a primary killed, suspended or emptied; slots that move to another primary',
    files: ['test/topologies/failover-in-a-cluster-loses-no-push.test.ts'],
  },
  {
    fault:
      'restart of each member of a replica set, and of each node of a Redis Cluster, under load',
    files: ['test/topologies/rolling-restart-of-servers-loses-no-push.test.ts'],
  },
  {
    fault: 'process killed while it ends a push, removes it, or makes the batch of a fallback',
    files: [KILLED_AT_FAILPOINT, SENDING_WORKER_AT_FAILPOINT],
  },
  {
    fault: 'delivery-worker killed around a request to a webhook',
    files: [SENDING_WORKER_AT_FAILPOINT],
  },
];
