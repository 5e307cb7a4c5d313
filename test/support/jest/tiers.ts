import { globSync } from 'node:fs';

/** A part of the tests that is run on its own: `npm run test:fast`, and so on. */
export interface Tier {
  name: string;
  /** Test files, from the repository's root, that are run side by side, in Jest's workers. */
  sideBySide: string[];
  /** Those that are run one at a time: a stack is a dozen processes, and the guarantees have bounds in seconds. */
  oneByOne: string[];
}

/** Tests under test/ that start no whole stack; so are all tests of packages, services and tools but one. */
const FAST = [
  'test/alerts/promtool-accepts-the-rules.test.ts',
  'test/attacks/no-service-starts-without-its-secrets.test.ts',
  'test/ci/ci-runs-what-changed.test.ts',
  'test/first-run/tampered-download-is-not-run.test.ts',
  'test/operators/commands-work-over-the-console.test.ts',
  'test/operators/lists-are-paginated.test.ts',
  'test/operators/doctor-and-migrate-report-the-database.test.ts',
  'test/soak/checker.test.ts',
  'test/soak/plan-and-figures.test.ts',
  'test/soak/read-ends.test.ts',
];

/** Tests that take long because their fault does: kills again and again, outages, large pushes. */
const LONG = [
  'test/faults/cut-mongodb-connection-makes-no-second-push.test.ts',
  'test/faults/push-to-100000-recipients.test.ts',
  'test/faults/large-topic-asks-for-workers.test.ts',
  'test/faults/process-killed-or-frozen-midway-loses-no-push.test.ts',
  'test/faults/single-pushes-outlive-their-job.test.ts',
  'test/faults/accepted-push-is-durable.test.ts',
  'test/faults/redis-outage-rejects-no-push.test.ts',
  'test/gateway/all-devices-reconnect-after-a-cut.test.ts',
  'test/gateway/slow-devices-do-not-block-others.test.ts',
  'test/guarantees/g15-api-responds-within-three-seconds.test.ts',
  'test/guarantees/g2-retry-takes-over-from-a-dead-process.test.ts',
  'test/guarantees/g9-older-push-does-not-follow-a-newer-one.test.ts',
  'test/providers/provider-outage-does-not-delay-others.test.ts',
  'test/providers/retry-after-is-honoured.test.ts',
  'test/providers/goaways-and-drops-lose-no-push.test.ts',
  'test/providers/killed-worker-sends-few-duplicates.test.ts',
  'test/providers/outcomes-of-20000-recipients-add-up.test.ts',
];

/** The same, with bounds that leave room for another stack: most of their time is waiting. */
const LONG_SIDE_BY_SIDE = [
  'test/bench/a-profile-names-the-hottest-functions.test.ts',
  'test/first-run/a-changed-file-restarts-its-service.test.ts',
  'test/first-run/full-disk-is-reported-and-cleaned-up.test.ts',
  'test/first-run/later-starts-keep-all-data.test.ts',
  'test/first-run/stacks-side-by-side.test.ts',
  'test/traces/one-trace-follows-a-push.test.ts',
  'test/traces/tracing-is-off-by-default.test.ts',
  'services/api/test/exports-end-visibly.test.ts',
  'services/delivery-worker/test/killed-redrive-is-continued.test.ts',
  'test/first-run/killed-first-start-can-be-repeated.test.ts',
  'test/first-run/interrupt-leaves-no-process.test.ts',
  'test/first-run/interrupted-tests-leave-no-process.test.ts',
  'test/model/stack-behaves-like-the-model.test.ts',
  'test/operators/gateway-drains-longer-than-20-seconds.test.ts',
  'test/operators/stalled-process-is-noticed.test.ts',
  'test/providers/frozen-worker-sends-few-duplicates.test.ts',
  'test/providers/settlement-that-fails-is-repeated-not-the-request.test.ts',
  'test/end-to-end/delivery-faults-lose-no-push.test.ts',
  'test/end-to-end/paused-app-waits-and-loses-no-push.test.ts',
  'test/attacks/floods-of-bodies-and-keys-are-rejected.test.ts',
  'test/attacks/slow-requests-of-a-tenant-close-no-registration.test.ts',
  'test/guarantees/g12-counters-become-exact.test.ts',
  'test/providers/deleted-and-expired-pushes-stop.test.ts',
  'test/providers/expired-tokens-and-changed-credentials.test.ts',
  'test/providers/options-reach-the-device-at-500-a-second.test.ts',
  'test/providers/phones-that-only-have-fcm-are-reached.test.ts',
  'test/providers/queues-are-split-between-workers.test.ts',
  'test/providers/sealing-key-rotates-as-documented.test.ts',
  'test/soak/half-a-minute-of-faults-breaks-no-guarantee.test.ts',
];

/** Faults that `npm run faults` provokes, besides those of the other tiers. */
const FAULTS = [
  'test/faults/full-disk-of-a-server-loses-no-push.test.ts',
  'test/faults/idle-devices-are-pruned.test.ts',
  'test/faults/invalid-job-is-refused.test.ts',
  'test/faults/job-that-runs-again-changes-nothing.test.ts',
  'test/faults/repeated-requests-end-an-overload.test.ts',
  'test/faults/one-way-partition-loses-no-push.test.ts',
  'test/faults/poison-over-providers-fails-alone.test.ts',
  'test/faults/process-killed-at-a-failpoint-loses-no-push.test.ts',
  'test/faults/process-that-ends-itself-loses-no-push.test.ts',
  'test/faults/pushes-due-during-an-outage-are-sent-once.test.ts',
  'test/faults/recipient-that-blocks-its-workers-fails-alone.test.ts',
  'test/faults/recipient-that-ends-its-workers-fails-alone.test.ts',
  'test/faults/redis-without-its-last-seconds-loses-no-push.test.ts',
  'test/faults/slow-mongodb-loses-no-push.test.ts',
  'test/faults/small-memory-is-enough-for-large-pushes.test.ts',
  'test/faults/webhooks-lose-no-event.test.ts',
  'test/faults/worker-killed-at-a-failpoint-repeats-little.test.ts',
  'test/faults/wrong-clock-sends-nothing-early.test.ts',
  'test/providers/each-answer-concerns-its-recipient.test.ts',
];

/** Tests that take minutes and hardly any CPU: they wait for alerts, or through an outage. */
const WAITING_SIDE_BY_SIDE = [
  'test/operators/alerts-fire-and-stop.test.ts',
  'test/operators/doctor-tells-slow-from-unreachable.test.ts',
  'test/operators/outage-restarts-nothing.test.ts',
];

/** These start no stack, but take too long for `fast`. */
const SLOW_PARTS = [
  'services/delivery-worker/test/connection-failures-lose-no-push.test.ts',
  'services/delivery-worker/test/fan-out/a-fan-out-reaches-each-subscriber-once.test.ts',
  'services/delivery-worker/test/failed-pushes-are-redriven-once.test.ts',
];

const OF_PARTS = [
  '{packages,services,tools}/*/test/**/*.test.ts',
  'services/dashboard/web/test/**/*.test.ts',
];
const BROWSERS = '{test/web-push,test/console}/**/*.test.ts';
const PYTHON = 'test/with-python/**/*.test.ts';
const DEPLOY = 'test/deploy/**/*.test.ts';
/** Each with several servers of Redis or MongoDB beside its stack. */
const TOPOLOGIES = 'test/topologies/**/*.test.ts';
/** Nine containers, a load and its clients at once: more than two cores carry without a slow request. */
const ROLLING = ['test/deploy/rolling-restart-behind-haproxy-fails-no-request.test.ts'];

/**
 * Gives every test file one tier. A file under test/ that nothing above names is in `stack`: tests
 * of a whole stack that are done in seconds.
 *
 * @param root the repository's folder
 */
export function readTiers(root: string): Tier[] {
  const find = (...patterns: string[]) =>
    globSync(patterns, { cwd: root, exclude: (path) => path.includes('node_modules') }).sort();
  const notFast = new Set([...LONG_SIDE_BY_SIDE, ...SLOW_PARTS]);
  const others: Tier[] = [
    {
      name: 'fast',
      sideBySide: [...find(...OF_PARTS), ...FAST].filter((path) => !notFast.has(path)),
      oneByOne: [],
    },
    { name: 'long', sideBySide: LONG_SIDE_BY_SIDE, oneByOne: LONG },
    { name: 'faults', sideBySide: [], oneByOne: FAULTS },
    { name: 'waiting', sideBySide: WAITING_SIDE_BY_SIDE, oneByOne: [] },
    { name: 'topologies', sideBySide: [], oneByOne: find(TOPOLOGIES) },
    { name: 'browsers', sideBySide: [], oneByOne: find(BROWSERS) },
    { name: 'python', sideBySide: [], oneByOne: find(PYTHON) },
    {
      name: 'deploy',
      sideBySide: [],
      oneByOne: find(DEPLOY).filter((path) => ![...FAST, ...ROLLING].includes(path)),
    },
    { name: 'rolling', sideBySide: [], oneByOne: ROLLING },
  ];
  const named = new Set([...others.flatMap(filesOf), ...SLOW_PARTS]);
  const ofStack = find('test/**/*.test.ts').filter((path) => !named.has(path));
  const sideBySide = [...SLOW_PARTS, ...ofStack];
  return [...others, { name: 'stack', sideBySide, oneByOne: [] }];
}

/** All files of a tier. */
export function filesOf({ sideBySide, oneByOne }: Tier): string[] {
  return [...sideBySide, ...oneByOne];
}
