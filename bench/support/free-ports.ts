import { once } from 'node:events';
import { createServer } from 'node:net';

const FIRST = 12_000;
const BLOCK = 100;
const BLOCKS = 60;
/** Port offsets that are probed to find a free block. */
const PROBED = [0, 1, 2, 3, 4, 5, 6, 10, 20, 40, 60, 80];

/**
 * Finds a value for CARILLON_PORT_BASE whose ports are free.
 *
 * @throws when every block is in use
 */
export async function freePortBase(): Promise<number> {
  for (let n = 0; n < BLOCKS; n += 1) {
    const base = FIRST + ((n + process.pid) % BLOCKS) * BLOCK;
    const free = await Promise.all(PROBED.map((offset) => isFree(base + offset)));
    if (free.every(Boolean)) return base;
  }
  throw new Error('no free block of ports');
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
