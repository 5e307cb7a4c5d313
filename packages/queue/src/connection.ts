import { Redis } from 'ioredis';

/** Why a Redis error is not thrown: it is told to whoever runs the process, and the data are in MongoDB. */
export type OnRedisError = (error: Error) => void;

const RECONNECT_MS_MAX = 1_000;
const reconnect = (attempt: number): number => Math.min(attempt * 100, RECONNECT_MS_MAX);

/** For adding jobs: fails within half a second instead of waiting for a Redis that is away. */
export function connectProducer(url: string, onError: OnRedisError): Redis {
  const redis = new Redis(url, {
    commandTimeout: 500,
    // A command that ran out of time leaves the link as it is: one that died without a word is given up by this.
    socketTimeout: 5_000,
    connectTimeout: 2_000,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    retryStrategy: reconnect,
  });
  redis.on('error', onError);
  return redis;
}

/** For workers, whose blocking reads wait for as long as it takes (BullMQ asks for exactly this). */
export function connectWorker(url: string, onError: OnRedisError): Redis {
  const redis = new Redis(url, {
    connectTimeout: 2_000,
    // A half-open link is noticed although a blocking read is under way; BullMQ's last 5 s.
    socketTimeout: 10_000,
    maxRetriesPerRequest: null,
    retryStrategy: reconnect,
  });
  redis.on('error', onError);
  return redis;
}
