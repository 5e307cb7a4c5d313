import type { RedisTarget } from '@carillon/core/redis-url';
import type { Redis } from './redis.ts';
import type { RedisMemory } from './redis-memory.ts';

/** One server. */
export interface RedisNode {
  /** host:port; undefined for the server that an address names itself. */
  address: string | undefined;
  server: 'Redis' | 'Valkey';
  version: string;
  memory: RedisMemory;
}

/** The servers behind an address. */
export interface RedisTopology {
  kind: RedisTarget['kind'];
  /** Description of the servers, for an operator. */
  summary: string;
  nodes: RedisNode[];
  /**
   * Reasons why a failover would not happen, or would take longer than ten seconds. Empty for one server, which has
   * none.
   */
  failoverFaults: string[];
}

/** Reads the data of the server that a connection leads to. */
export type ReadNode = (redis: Redis, address: string | undefined) => Promise<RedisNode>;
