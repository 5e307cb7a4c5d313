/**
 * Test files that `npm test -- --topology cluster` and `--topology sentinel` leave out, each with the reason: what they test is
 * one Redis that the stack runs itself. Files that start a Redis of their own run as always.
 */
export const ONE_REDIS_ONLY: Record<string, string> = {
  'test/api/rate-limits-are-per-account.test.ts': 'freezes the Redis of the stack',
  'test/attacks/deleted-device-is-disconnected.test.ts': 'freezes the Redis of the stack',
  'test/attacks/secrets-stay-where-they-belong.test.ts':
    'records each command with MONITOR, which one server has',
  'test/bench/a-push-costs-few-commands.test.ts': 'counts the commands of one Redis',
  'test/faults/lost-redis-loses-no-push.test.ts':
    'kills the Redis of the stack, and replaces its folder',
  'test/faults/pushes-due-during-an-outage-are-sent-once.test.ts':
    'kills the Redis of the stack, and reads its folder',
  'test/first-run/killed-process-is-restarted.test.ts': 'kills the Redis of the stack',
  'test/first-run/later-starts-keep-all-data.test.ts': "removes the folder of the stack's Redis",
};
