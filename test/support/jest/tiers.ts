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
  'test/alerts/alerts-are-tested-and-explained.test.ts',
  'test/alerts/compose-profile-observability.test.ts',
  'test/alerts/promtool-accepts-the-rules.test.ts',
  'test/alerts/runbooks-have-your-address.test.ts',
  'test/architecture.test.ts',
  'test/attacks/no-service-starts-without-its-secrets.test.ts',
  'test/dependencies-have-free-licences.test.ts',
  'test/ci/changes-since-a-commit.test.ts',
  'test/ci/each-change-has-its-tests.test.ts',
  'test/ci/results-are-read.test.ts',
  'test/deploy/compose-passes-the-settings-of-the-services.test.ts',
  'test/deploy/dockerfile-names-the-bootstraps-versions.test.ts',
  'test/docs/each-section-of-security-has-its-tests.test.ts',
  'test/docs/the-documents-name-what-exists.test.ts',
  'test/docs/the-metrics-and-limits-are-those-of-the-code.test.ts',
  'test/docs/the-performance-page-is-current.test.ts',
  'test/docs/the-picture-of-the-imports-is-true.test.ts',
  'test/docs/the-settings-page-agrees-with-the-schemas.test.ts',
  'test/docs/the-table-of-faults-is-the-plan.test.ts',
  'test/first-run/tampered-download-is-not-run.test.ts',
  'test/operators/lists-are-paginated.test.ts',
  'test/operators/migrate-updates-the-schema.test.ts',
  'test/operators/doctor-reports-overdue-batches.test.ts',
  'test/soak/checker.test.ts',
  'test/soak/duplicates.test.ts',
  'test/soak/read-ends.test.ts',
  'test/soak/recovery.test.ts',
  'test/support/every-failpoint-kills-in-a-test.test.ts',
  'test/support/tiers.test.ts',
];

/** Without a stack, but too long for `fast`; and it asserts a bound in seconds that a file beside it could stretch. */
const STACK_OF_PARTS = ['services/api/test/slow-requests-time-out-with-one-response.test.ts'];

/** Tests that take long because their fault does: kills again and again, outages, large pushes. */
const LONG = [
  'test/attacks/wrong-keys-cost-few-lookups.test.ts',
  'test/faults/cut-mongodb-connection-accepts-nothing.test.ts',
  'test/faults/push-to-100000-recipients.test.ts',
  'test/faults/large-topic-asks-for-workers.test.ts',
  'test/faults/killed-gateway-loses-no-push.test.ts',
  'test/faults/killed-worker-loses-no-push.test.ts',
  'test/faults/single-pushes-outlive-their-job.test.ts',
  'test/faults/unresponsive-redis-loses-no-push.test.ts',
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
  'test/providers/large-push-sends-few-duplicates.test.ts',
  'test/providers/outcomes-of-20000-recipients-add-up.test.ts',
];

/** The same, with bounds that leave room for another stack: most of their time is waiting. */
const LONG_SIDE_BY_SIDE = [
  'services/api/test/exports-end-visibly.test.ts',
  'services/dashboard/test/two-processes-are-one-console.test.ts',
  'services/dashboard/test/unfinished-requests-end-in-time.test.ts',
  'services/delivery-worker/test/killed-redrive-is-continued.test.ts',
  'test/faults/frozen-process-is-fenced.test.ts',
  'test/first-run/killed-first-start-can-be-repeated.test.ts',
  'test/first-run/interrupt-leaves-no-process.test.ts',
  'test/first-run/interrupted-tests-leave-no-process.test.ts',
  'test/model/stack-behaves-like-the-model.test.ts',
  'test/operators/gateway-drains-longer-than-20-seconds.test.ts',
  'test/operators/stalled-gateway-is-noticed.test.ts',
  'test/operators/stalled-scheduler-is-noticed.test.ts',
  'test/operators/stalled-worker-turns-unready-then-dead.test.ts',
  'test/providers/frozen-worker-sends-few-duplicates.test.ts',
  'test/providers/killed-worker-sends-few-duplicates.test.ts',
  'test/providers/late-renewal-releases-no-batch.test.ts',
  'test/providers/settlement-that-fails-is-repeated-not-the-request.test.ts',
  'test/end-to-end/delivery-faults-lose-no-push.test.ts',
  'test/attacks/oversized-and-slow-bodies-are-rejected.test.ts',
  'test/attacks/slow-requests-of-a-tenant-close-no-registration.test.ts',
  'test/guarantees/g12-counters-become-exact.test.ts',
  'test/providers/deleted-and-expired-pushes-stop.test.ts',
  'test/providers/expired-tokens-and-changed-credentials.test.ts',
  'test/providers/queues-are-split-between-workers.test.ts',
  'test/soak/half-a-minute-of-faults-breaks-no-guarantee.test.ts',
];

/** Faults that `npm run faults` provokes, besides those of the other tiers. */
const FAULTS = [
  'test/faults/api-killed-after-an-address-gives-it-to-one-device.test.ts',
  'test/faults/api-killed-around-the-commit-accepts-all-or-nothing.test.ts',
  'test/faults/api-suspended-before-its-insert-makes-no-second-push.test.ts',
  'test/faults/full-disk-of-mongodb-accepts-nothing-by-half.test.ts',
  'test/faults/full-disk-of-redis-rejects-no-push.test.ts',
  'test/faults/invalid-job-is-refused.test.ts',
  'test/faults/job-that-runs-again-changes-nothing.test.ts',
  'test/faults/lost-mongodb-response-makes-no-second-push.test.ts',
  'test/faults/repeated-requests-end-an-overload.test.ts',
  'test/faults/one-way-partition-loses-no-push.test.ts',
  'test/faults/poison-over-providers-fails-alone.test.ts',
  'test/faults/process-killed-at-a-failpoint-loses-no-push.test.ts',
  'test/faults/process-that-ends-itself-loses-no-push.test.ts',
  'test/faults/pushes-due-during-an-outage-are-sent-once.test.ts',
  'test/faults/receipts-of-a-killed-worker-have-their-time.test.ts',
  'test/faults/recipient-that-blocks-its-workers-fails-alone.test.ts',
  'test/faults/recipient-that-ends-its-workers-fails-alone.test.ts',
  'test/faults/redis-without-its-last-seconds-loses-no-push.test.ts',
  'test/faults/replica-set-failover-loses-no-push.test.ts',
  'test/faults/response-that-throws-fails-its-recipient-alone.test.ts',
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
  'test/operators/outage-restarts-nothing.test.ts',
];

/** Tests of a whole stack that check texts and states, and no time that another stack could stretch. */
const STACK_SIDE_BY_SIDE = [
  // These start no stack, but take too long for `fast`.
  'packages/runtime/test/failing-receiver-of-traces-costs-little.test.ts',
  'packages/presence/test/figures-of-all-processes-add-up.test.ts',
  'packages/presence/test/presence-refresher.test.ts',
  'packages/store/test/crossing-writes-lose-no-outcome.test.ts',
  'packages/reports/test/device-overviews-miss-no-pending-push.test.ts',
  'packages/store/test/migrations-run-one-at-a-time-and-continue-after-a-kill.test.ts',
  'services/cli/test/simulated-devices-register-and-connect.test.ts',
  'services/delivery-worker/test/apns/connection-failures-lose-no-push.test.ts',
  'services/delivery-worker/test/failed-pushes-are-redriven-once.test.ts',
  'services/delivery-worker/test/fcm/connection-failures-lose-no-push.test.ts',
  'services/delivery-worker/test/fan-out/two-releases-share-a-fan-out.test.ts',
  'packages/webhooks/test/a-dead-receiver-delays-no-other-address.test.ts',
  'services/device-gateway/test/one-client-cannot-lock-out-others.test.ts',
  'services/device-gateway/test/only-authenticated-devices-connect.test.ts',
  'tools/supervisor/test/a-test-run-leaves-no-process.test.ts',
  'test/api/web-push-public-key-needs-no-api-key.test.ts',
  'test/api/settings-are-per-app.test.ts',
  'test/api/invalid-input-stores-nothing.test.ts',
  'test/api/every-error-code-is-returned.test.ts',
  'test/api/rate-limits-are-per-account.test.ts',
  'test/api/wrong-keys-do-not-block-valid-keys.test.ts',
  'test/attacks/invalid-device-does-not-block-registration.test.ts',
  'test/attacks/page-past-the-end-costs-no-scan.test.ts',
  'test/attacks/each-process-has-only-its-secrets.test.ts',
  'test/attacks/doctor-probe-is-no-failed-login.test.ts',
  'test/attacks/secrets-stay-where-they-belong.test.ts',
  'test/attacks/only-the-services-for-clients-are-open-to-a-network.test.ts',
  'test/attacks/unfinished-bodies-do-not-block-others.test.ts',
  'test/bench/a-profile-names-the-hottest-functions.test.ts',
  'test/end-to-end/api-errors-are-json.test.ts',
  'test/end-to-end/push-can-be-traced-in-the-logs.test.ts',
  'test/end-to-end/redis-over-tls-is-verified.test.ts',
  'test/end-to-end/redis-without-scripts-is-named-at-the-start.test.ts',
  'test/first-run/a-changed-file-restarts-its-service.test.ts',
  'test/first-run/data-server-start-failure-shows-a-hint.test.ts',
  'test/first-run/full-disk-is-reported-and-cleaned-up.test.ts',
  'test/first-run/killed-process-is-restarted.test.ts',
  'test/first-run/second-start-keeps-all-data.test.ts',
  'test/first-run/stacks-side-by-side.test.ts',
  'test/first-run/banner-commands-work.test.ts',
  'test/first-run/command-line.test.ts',
  'test/first-run/start-errors-name-the-cause.test.ts',
  'test/fuzz/random-packets-do-no-harm.test.ts',
  'test/fuzz/random-requests-do-no-harm.test.ts',
  'test/gateway/mqtt-clients-receive-and-reconnect.test.ts',
  'test/guarantees/concurrent-completion-counts-once.test.ts',
  'test/official-clients/outage-does-not-change-device-tokens.test.ts',
  'test/operators/canary-measures-deliveries.test.ts',
  'test/operators/doctor-reports-a-proxy-that-the-settings-do-not-name.test.ts',
  'test/operators/metrics-count-every-recipient-once.test.ts',
  'test/operators/migrate-waits-for-mongodb.test.ts',
  'test/operators/older-backup-is-restored.test.ts',
  'test/operators/probes-report-what-each-service-did-last.test.ts',
  'test/operators/services-wait-for-mongodb-and-redis.test.ts',
  'test/providers/batch-without-an-attempt-is-released-unsaved.test.ts',
  'test/providers/new-contact-keeps-the-vapid-keys.test.ts',
  'test/providers/one-push-reaches-every-channel.test.ts',
  'test/providers/provider-secrets-are-not-logged.test.ts',
  'test/providers/reseal-keeps-all-credentials.test.ts',
  'test/providers/sealing-key-rotates-as-documented.test.ts',
  'test/support/stack.test.ts',
  'test/traces/one-trace-follows-a-push.test.ts',
  'test/traces/tracing-is-off-by-default.test.ts',
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
  const notBeside = new Set([...STACK_OF_PARTS, ...LONG_SIDE_BY_SIDE, ...STACK_SIDE_BY_SIDE]);
  const others: Tier[] = [
    {
      name: 'fast',
      sideBySide: [...find(...OF_PARTS), ...FAST].filter((path) => !notBeside.has(path)),
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
  const named = new Set([...others.flatMap(filesOf), ...STACK_SIDE_BY_SIDE]);
  const ofStack = find('test/**/*.test.ts').filter((path) => !named.has(path));
  const sideBySide = [...STACK_SIDE_BY_SIDE, ...STACK_OF_PARTS, ...ofStack];
  return [...others, { name: 'stack', sideBySide, oneByOne: [] }];
}

/** All files of a tier. */
export function filesOf({ sideBySide, oneByOne }: Tier): string[] {
  return [...sideBySide, ...oneByOne];
}
