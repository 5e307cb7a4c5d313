const KILLED_GATEWAY = 'test/faults/killed-gateway-loses-no-push.test.ts';
const ONCE_AND_IN_ORDER = 'test/guarantees/g4-g5-pushes-arrive-once-and-in-order.test.ts';
const KILLED_GATEWAYS = 'test/guarantees/g4-g11-killed-gateways-are-seen-offline.test.ts';

/** The tests of each guarantee of docs/guarantees.md. */
export const GUARANTEE_TESTS: Readonly<Record<string, readonly string[]>> = {
  G1: [
    'test/faults/accepted-push-is-durable.test.ts',
    'test/faults/flushed-redis-loses-no-push.test.ts',
  ],
  G2: [
    'test/guarantees/g2-same-key-and-body-get-the-same-response.test.ts',
    'test/guarantees/g2-retry-takes-over-from-a-dead-process.test.ts',
    'test/faults/lost-mongodb-response-makes-no-second-push.test.ts',
  ],
  G3: [
    'test/guarantees/each-recipient-has-one-outcome.test.ts',
    'test/providers/outcomes-of-20000-recipients-add-up.test.ts',
  ],
  G4: [
    ONCE_AND_IN_ORDER,
    KILLED_GATEWAYS,
    'test/faults/push-to-100000-recipients.test.ts',
    KILLED_GATEWAY,
    'test/providers/killed-worker-sends-few-duplicates.test.ts',
    'test/providers/frozen-worker-sends-few-duplicates.test.ts',
  ],
  G5: [ONCE_AND_IN_ORDER],
  G6: [
    'test/guarantees/g6-expired-push-is-not-sent.test.ts',
    'test/providers/deleted-and-expired-pushes-stop.test.ts',
  ],
  G7: ['test/guarantees/g7-scheduled-push-is-never-early.test.ts'],
  G8: [
    'test/guarantees/g8-deleted-push-is-not-sent.test.ts',
    'test/providers/deleted-and-expired-pushes-stop.test.ts',
  ],
  G9: [
    'test/guarantees/g9-newest-push-of-a-collapse-key-wins.test.ts',
    'test/guarantees/g9-older-push-does-not-follow-a-newer-one.test.ts',
  ],
  G10: ['test/guarantees/g10-push-status-and-device-info-agree.test.ts'],
  G11: [KILLED_GATEWAYS, KILLED_GATEWAY],
  G12: [
    'test/guarantees/g12-topics-count-and-list-subscribers.test.ts',
    'test/guarantees/g12-counters-become-exact.test.ts',
  ],
  G13: [
    'test/guarantees/g13-tenants-are-isolated.test.ts',
    'test/api/every-route-hides-other-tenants.test.ts',
  ],
  G14: [
    'test/faults/killed-redis-loses-no-push.test.ts',
    'test/faults/redis-outage-rejects-no-push.test.ts',
  ],
  G15: [
    'test/guarantees/g15-api-responds-within-three-seconds.test.ts',
    'test/faults/mongodb-outage-rejects-no-device.test.ts',
    'test/official-clients/outage-does-not-change-device-tokens.test.ts',
  ],
  G16: [
    'test/providers/provider-responses-map-to-outcomes.test.ts',
    'test/providers/one-recipient-stops-no-app.test.ts',
    'test/providers/each-answer-concerns-its-recipient.test.ts',
    'test/providers/expired-tokens-and-changed-credentials.test.ts',
  ],
  G17: ['test/faults/rolling-restart-fails-no-request.test.ts'],
};
