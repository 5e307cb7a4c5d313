import { once } from 'node:events';
import { createServer } from 'node:net';

const FIRST_PORT = 20_000;
const BLOCK_SIZE = 200;
const BLOCKS_PER_WORKER = 12;
/** Jest's workers, and the process that starts the stacks that they share. */
const WORKERS = 5;
/** The last blocks that this process has given: their stacks may not listen yet. */
const given: number[] = [];
const REMEMBERED = 6;

/** Ports of a stack that are checked for its block: API, MQTT, Redis, MongoDB, console, ops ports. */
const PROBED_OFFSETS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 40, 60, 80];

/**
 * Finds a value for CARILLON_PORT_BASE whose ports are free on `host` now. Below 32,768, where
 * the system's own choices begin; each Jest worker searches a range of its own.
 *
 * @throws when every block is taken.
 */
export async function freePortBase(host: string): Promise<number> {
  const worker = Number(process.env.JEST_WORKER_ID ?? 0) % WORKERS;
  // Two runs on one machine seldom begin at the same block.
  const start = process.pid % BLOCKS_PER_WORKER;
  for (let i = 0; i < BLOCKS_PER_WORKER; i++) {
    const block = worker * BLOCKS_PER_WORKER + ((start + i) % BLOCKS_PER_WORKER);
    const base = FIRST_PORT + block * BLOCK_SIZE;
    if (given.includes(base) || !(await areFree(host, base)) || given.includes(base)) continue;
    given.push(base);
    if (given.length > REMEMBERED) given.shift();
    return base;
  }
  throw new Error('no free block of ports');
}

async function areFree(host: string, base: number): Promise<boolean> {
  const free = await Promise.all(PROBED_OFFSETS.map((offset) => isFree(host, base + offset)));
  return free.every(Boolean);
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, host), 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
