/**
 * Test files that `npm test -- --topology replica-set` leaves out, each with the reason: what they test is the MongoDB that a
 * stack runs itself. Files that start a MongoDB of their own run as always.
 */
export const ONE_MONGODB_ONLY: Record<string, string> = {
  'test/api/every-error-code-is-returned.test.ts': 'freezes the MongoDB of the stack',
  'test/attacks/deleted-device-is-disconnected.test.ts': 'freezes the MongoDB of the stack',
  'test/bench/a-push-costs-few-commands.test.ts': 'counts the statements of one MongoDB',
  'test/end-to-end/api-errors-are-json.test.ts': 'freezes the MongoDB of the stack',
  'test/faults/accepted-push-is-durable.test.ts': 'kills the MongoDB of the stack',
  'test/faults/mongodb-outage-rejects-no-device.test.ts': 'kills the MongoDB of the stack',
  'test/faults/pushes-due-during-an-outage-are-sent-once.test.ts': 'kills the MongoDB of the stack',
  'test/faults/webhooks-lose-no-event.test.ts': 'kills the MongoDB of the stack',
  'test/first-run/killed-process-is-restarted.test.ts': 'kills the MongoDB of the stack',
};
