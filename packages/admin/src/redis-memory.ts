import { type RedisMemory, usedShare } from '@carillon/presence/redis-memory';

/** Share of maxmemory from which on it is reported, before Redis refuses jobs. The alert CarillonRedisMemoryNearLimit has the same. */
const NEARLY_FULL = 0.8;
const MIB = 1_048_576;

/** What to do about a Redis that is nearly full. */
export const MEMORY_ADVICE =
  'When it is full, pushes are accepted and wait. Raise maxmemory, or find out why jobs pile up.';

/** Checks that a server will soon refuse to store more, or does. */
export function isNearlyFull(memory: RedisMemory): boolean {
  return usedShare(memory) >= NEARLY_FULL;
}

/** Describes the used memory of a server that has a limit. */
export function summarizeMemory(memory: RedisMemory): string {
  const [used, max] = [memory.usedBytes, memory.maxBytes].map((bytes) => (bytes / MIB).toFixed(0));
  return `${(usedShare(memory) * 100).toFixed(0)} % of maxmemory (${used} of ${max} MiB)`;
}
