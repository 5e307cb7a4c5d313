/** A fault and the tests that apply it. */
export interface PlannedFault {
  fault: string;
  /** Test files; a `main.ts` is a program that reports by its exit code. Several faults may share a file. */
  files: readonly string[];
  /** Why no file applies the fault. */
  reason?: string;
}

const AT_FAILPOINT = 'test/faults/process-killed-at-a-failpoint-loses-no-push.test.ts';
const MIDWAY = 'test/faults/process-killed-or-frozen-midway-loses-no-push.test.ts';
const SENDING_WORKER = 'test/providers/killed-worker-sends-few-duplicates.test.ts';
const ENDS_ITSELF = 'test/faults/process-that-ends-itself-loses-no-push.test.ts';
const SENDING_WORKER_AT_FAILPOINT =
  'test/faults/worker-killed-at-a-failpoint-repeats-little.test.ts';
const GOAWAYS = 'test/providers/goaways-and-drops-lose-no-push.test.ts';
const REDIS_OUTAGE = 'test/faults/redis-outage-rejects-no-push.test.ts';
const EMPTIED_REDIS = 'test/faults/emptied-redis-loses-no-push.test.ts';
const REDIS_FAILOVER = 'test/topologies/failover-of-redis-loses-no-push.test.ts';
const REPLICA_SET_FAILOVER = 'test/topologies/replica-set-failover-loses-no-push.test.ts';
const MEMBERS = 'test/topologies/members-of-a-replica-set-frozen-or-restarted-lose-no-push.test.ts';
const CUT_MONGODB = 'test/faults/cut-mongodb-connection-makes-no-second-push.test.ts';

const ROWS: readonly (readonly [fault: string, ...files: string[]])[] = [
  ['API killed before it stores the push', AT_FAILPOINT],
  [
    'API killed between the batches and the commit',
    AT_FAILPOINT,
    'test/guarantees/g2-retry-takes-over-from-a-dead-process.test.ts',
  ],
  ['API killed after the commit, before the response', AT_FAILPOINT],
  ['API killed after the commit, before the job', AT_FAILPOINT],
  ['delivery-worker killed during a page of a fan-out', MIDWAY, AT_FAILPOINT],
  ['delivery-worker killed after the inbox rows', AT_FAILPOINT],
  [
    'delivery-worker killed after the dispatch or a request, before the outcome is saved',
    MIDWAY,
    SENDING_WORKER,
    AT_FAILPOINT,
    SENDING_WORKER_AT_FAILPOINT,
  ],
  ['delivery-worker killed after some batches of a push', MIDWAY],
  ['delivery-worker killed twice on one batch, three times in one push', MIDWAY, SENDING_WORKER],
  ['scheduler killed when a push is due', EMPTIED_REDIS, AT_FAILPOINT],
  [
    'all services down when 1,000 pushes are due; with them MongoDB and Redis',
    'test/faults/pushes-due-during-an-outage-are-sent-once.test.ts',
    'test/guarantees/g7-scheduled-push-is-never-early.test.ts',
  ],
  ['gateway killed after a PUBLISH', MIDWAY, AT_FAILPOINT],
  ['gateway ended between a PUBACK and its record', ENDS_ITSELF, AT_FAILPOINT],
  ['gateway killed or stopped during an inbox or a drain', MIDWAY, AT_FAILPOINT],
  [
    'delivery-worker or gateway suspended for three leases',
    MIDWAY,
    'test/providers/frozen-worker-sends-few-duplicates.test.ts',
  ],
  ['Redis emptied three times during a fan-out', EMPTIED_REDIS],
  ['Redis killed for a minute', REDIS_OUTAGE],
  [
    'Redis suspended; half-open connections to it',
    REDIS_OUTAGE,
    'packages/presence/test/silent-servers-are-left-soon.test.ts',
    'packages/queue/test/queue-opened-while-redis-stalls-works-afterwards.test.ts',
  ],
  ['Redis out of memory', REDIS_OUTAGE],
  [
    'MongoDB killed or suspended',
    'test/faults/mongodb-outage-rejects-no-device.test.ts',
    'test/guarantees/g15-api-responds-within-three-seconds.test.ts',
    'test/official-clients/outage-does-not-change-device-tokens.test.ts',
    'test/faults/accepted-push-is-durable.test.ts',
  ],
  [
    'connection to MongoDB cut around a write',
    CUT_MONGODB,
    'packages/store/test/a-lost-connection-is-never-reported-as-success.test.ts',
  ],
  [
    'full disk of MongoDB or Redis (as root)',
    'test/faults/full-disk-of-a-server-loses-no-push.test.ts',
  ],
  [
    'replica set: the primary steps down, is killed, or loses its secondaries',
    REPLICA_SET_FAILOVER,
  ],
  [
    'a clock five minutes off that jumps, in each service; a second in MongoDB',
    'test/faults/wrong-clock-sends-nothing-early.test.ts',
    'packages/queue/test/wrong-clocks-stop-no-queue.test.ts',
  ],
  [
    'partitions in one direction between a service and a server',
    'test/faults/one-way-partition-loses-no-push.test.ts',
  ],
  [
    'APNs: 429, 503, GOAWAY, silence, resets, expired tokens',
    GOAWAYS,
    'test/providers/expired-tokens-and-changed-credentials.test.ts',
    'services/delivery-worker/test/apns/connection-failures-lose-no-push.test.ts',
  ],
  [
    'FCM: 429 with `Retry-After`, 500, silence, resets',
    GOAWAYS,
    'test/providers/retry-after-is-honoured.test.ts',
    'services/delivery-worker/test/fcm/connection-failures-lose-no-push.test.ts',
  ],
  [
    'Web Push: redirects, endless and slow responses, private addresses',
    GOAWAYS,
    'services/delivery-worker/test/web-push/hostile-push-services-are-contained.test.ts',
  ],
  [
    'a recipient, a payload or a response that ends or blocks its worker each time',
    'test/faults/recipient-that-blocks-its-workers-fails-alone.test.ts',
    'test/faults/recipient-that-ends-its-workers-fails-alone.test.ts',
    'test/faults/response-that-throws-fails-its-recipient-alone.test.ts',
    'test/faults/poison-over-providers-fails-alone.test.ts',
  ],
  [
    'each kind of job run twice, and five times at once',
    'test/faults/job-that-runs-again-changes-nothing.test.ts',
  ],
  ['all devices cut at once', 'test/gateway/all-devices-reconnect-after-a-cut.test.ts'],
  [
    'devices that read slowly or not at all',
    'test/gateway/slow-devices-do-not-block-others.test.ts',
  ],
  [
    'a device that connects twice, again and again',
    'test/end-to-end/latest-connection-wins.test.ts',
  ],
  [
    'pushes of one collapse key at once, with kills',
    'test/guarantees/g9-newest-push-of-a-collapse-key-wins.test.ts',
    'test/guarantees/g9-older-push-does-not-follow-a-newer-one.test.ts',
  ],
  [
    'deletion and expiry during a delivery',
    'test/guarantees/g8-deleted-push-is-not-sent.test.ts',
    'test/providers/deleted-and-expired-pushes-stop.test.ts',
  ],
  ['restart of each service in turn', 'test/faults/rolling-restart-fails-no-request.test.ts'],
  [
    'a blocked event loop, an unhandled rejection, too little memory',
    ENDS_ITSELF,
    'test/faults/small-memory-is-enough-for-large-pushes.test.ts',
  ],
  [
    'random faults under load',
    'test/soak/half-a-minute-of-faults-breaks-no-guarantee.test.ts',
    'test/soak/main.ts',
  ],
  ['a job that is invalid or of another release', 'test/faults/invalid-job-is-refused.test.ts'],
  [
    'Redis back without its last seconds',
    'test/faults/lost-presence-entry-loses-no-push.test.ts',
    'test/faults/redis-without-its-last-seconds-loses-no-push.test.ts',
  ],
  [
    'single pushes whose shared job is lost',
    'test/faults/single-pushes-outlive-their-job.test.ts',
    AT_FAILPOINT,
  ],
  ['response of MongoDB to a write of the API lost', CUT_MONGODB],
  [
    'each response of MongoDB later by 300 ms, by 500 ms, and by 1 s',
    'test/faults/slow-mongodb-loses-no-push.test.ts',
  ],
  [
    'webhooks: Redis emptied, MongoDB and delivery-worker killed in the middle of the reports',
    'test/faults/webhooks-lose-no-event.test.ts',
  ],
  [
    'receivers of webhooks that are dead, slow or hostile',
    'packages/webhooks/test/a-dead-receiver-delays-no-other-address.test.ts',
    'packages/webhooks/test/hostile-receivers-are-contained.test.ts',
  ],
  [
    'clients that repeat their requests faster than a slow MongoDB serves them',
    'test/faults/repeated-requests-end-an-overload.test.ts',
    'services/api/test/an-overload-refuses-only-those-with-many-requests.test.ts',
  ],
  ['delivery-worker killed between the receipts of a batch and its settlement', AT_FAILPOINT],
  [
    'API suspended before it inserts a push with an idempotency key; killed between two devices of one provider address',
    AT_FAILPOINT,
  ],
  [
    'replica set: a member frozen, lagging or cut off, a clock ahead, a claim undone',
    MEMBERS,
    REPLICA_SET_FAILOVER,
    'test/topologies/new-primary-with-a-clock-ahead-ends-leases-early.test.ts',
    'test/topologies/primary-cut-off-with-its-clients-loses-no-push.test.ts',
    'test/topologies/rolled-back-claim-is-made-again.test.ts',
  ],
  ['primary of Redis killed, suspended or replaced on request, behind Sentinels', REDIS_FAILOVER],
  [
    'Redis Cluster: a primary killed, suspended or emptied; slots that move to another primary',
    REDIS_FAILOVER,
  ],
  [
    'restart of each member of a replica set, and of each node of a Redis Cluster, under load',
    MEMBERS,
    REDIS_FAILOVER,
  ],
  [
    'process killed while it ends a push, removes it, or makes the batch of a fallback',
    AT_FAILPOINT,
    SENDING_WORKER_AT_FAILPOINT,
  ],
  ['delivery-worker killed around a request to a webhook', SENDING_WORKER_AT_FAILPOINT],
];

/**
 * The faults under which the guarantees are tested, in the order of their numbers in docs/guarantees.md, from 1.
 * `npm run faults` runs their tests.
 */
export const FAULT_PLAN: readonly PlannedFault[] = ROWS.map(([fault, ...files]) => ({
  fault,
  files,
}));
