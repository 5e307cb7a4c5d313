import { hashTag, type Redis } from '@carillon/presence/redis';
import { QueueKeys } from 'bullmq';
import type { QueueName } from './jobs.ts';

/** Hash tag of the keys of all queues in a cluster: BullMQ's scripts need the keys of a queue in one slot. */
const CLUSTER_TAG = 'queue';

/** Returns BullMQ's prefix of the queues. */
export function queuePrefix(redis: Redis): string {
  return hashTag(redis, CLUSTER_TAG) ?? 'bull';
}

/** Returns a key of BullMQ, such as `wait`, or of a job, by its id. */
export function queueKey(redis: Redis, queue: QueueName, name: string): string {
  return new QueueKeys(queuePrefix(redis)).toKey(queue, name);
}

/** Returns the key that the workers of a queue renew while they take jobs. */
export function workerKey(redis: Redis, queue: QueueName): string {
  return `worker:${inSlot(redis)}${queue}`;
}

/** Returns the key of the apps' turns in a queue. */
export function turnsKey(redis: Redis, queue: QueueName): string {
  return `turns:${inSlot(redis)}${queue}`;
}

/** Returns the key that claims a tick of the schedulers. */
export function tickKey(redis: Redis, task: string): string {
  return `tick:${inSlot(redis)}${task}`;
}

/**
 * Returns a key that nothing reads, on the node of the queues.
 *
 * @returns undefined if any key will do
 */
export function probeKey(redis: Redis): string | undefined {
  const tag = hashTag(redis, CLUSTER_TAG);
  return tag && `probe:${tag}:write`;
}

/** Returns the part of a key that keeps it in the slot of the queues; empty without a cluster. */
function inSlot(redis: Redis): string {
  const tag = hashTag(redis, CLUSTER_TAG);
  return tag === undefined ? '' : `${tag}:`;
}
