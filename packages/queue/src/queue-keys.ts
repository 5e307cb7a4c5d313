import { hashTag, type Redis } from '@carillon/presence/redis';
import { QueueKeys } from 'bullmq';
import type { QueueName } from './jobs.ts';

/** Returns BullMQ's prefix of a queue. In a cluster all keys of a queue are in one slot, as its scripts need it. */
export function queuePrefix(redis: Redis, queue: QueueName): string {
  return queueTag(redis, queue) ?? 'bull';
}

/** Returns a key of BullMQ, such as `wait`, or of a job, by its id. */
export function queueKey(redis: Redis, queue: QueueName, name: string): string {
  return new QueueKeys(queuePrefix(redis, queue)).toKey(queue, name);
}

/** Returns the key that the workers of a queue renew while they take jobs. */
export function workerKey(redis: Redis, queue: QueueName): string {
  return `worker:${queueTag(redis, queue) ?? queue}`;
}

/** Returns the key that claims a tick of the schedulers. It is on the node of the queue that their readiness checks. */
export function tickKey(redis: Redis, task: string): string {
  return `tick:${queueTag(redis, 'maintenance') ?? 'maintenance'}:${task}`;
}

/** Returns a key that nothing reads, on the node of the queue; undefined: any key will do. */
export function probeKey(redis: Redis, queue: QueueName): string | undefined {
  const tag = queueTag(redis, queue);
  return tag && `probe:${tag}:write`;
}

function queueTag(redis: Redis, queue: QueueName): string | undefined {
  return hashTag(redis, `queue-${queue}`);
}
