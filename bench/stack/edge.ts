import { fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Size, StackFixture } from '../support/fixture.ts';
import {
  createHttpConnections,
  encodeHttpRequest,
  type HttpConnections,
} from '../support/http-connections.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { pidOf, readCpuSeconds } from '../support/resource-usage.ts';
import { measureAlternately, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const CONCURRENCY = 64;
const ROUNDS = 7;
const REQUESTS: Record<Size, number> = { quick: 5_000, usual: 15_000, full: 30_000 };

/** A push whose expiry has passed: rejected after parsing and before any lookup. */
const BODY = JSON.stringify({
  to: 'a'.repeat(22),
  data: { message: 'Hello World!', badge: 3, link: 'https://example.com/orders/7312' },
  notification: { title: 'Your order', body: 'It is on its way', sound: 'ping.aiff' },
  time_to_live: 86_400,
  collapse_key: 'order-7312',
  content_available: true,
  schedule: 1_000_000_000,
});

/** Measures the API's CPU time for a request that is read, validated, rejected and logged. */
export async function edge(fixture: StackFixture, size: Size): Promise<Row[]> {
  const floor = await startFloor(fixture.stack.home);
  try {
    const ours = { pid: pidOf(fixture.stack, 'api'), connections: fixture.connections };
    const request = fixture.request('POST', '/push', BODY);
    const measure = (one: Pick<Floor, 'pid' | 'connections'>, bytes: Buffer) =>
      measureCpuPerRequest(one, bytes, REQUESTS[size]);
    const floorRequest = encodeHttpRequest('POST', floor.url, BODY);
    const rounds = await measureAlternately(
      ROUNDS + 1,
      () => measure(floor, floorRequest),
      () => measure(ours, request),
    );
    const what = 'edge: requests a CPU-second against bare node:http';
    // The first round warms up the compiler.
    return [ratioRow(what, rounds.slice(1), { unit: 'µs', ratio: 'floor/ours' })];
  } finally {
    await floor.stop();
  }
}

async function measureCpuPerRequest(
  { pid, connections }: Pick<Floor, 'pid' | 'connections'>,
  request: Buffer,
  count: number,
): Promise<number> {
  const before = readCpuSeconds(pid);
  await runConcurrently(count, CONCURRENCY, async () => {
    const { status, body } = await connections.send(request);
    if (status !== 400) throw new Error(`not refused: ${status} ${body}`);
  });
  return ((readCpuSeconds(pid) - before) * 1e6) / count;
}

interface Floor {
  pid: number;
  url: URL;
  connections: HttpConnections;
  stop(): Promise<void>;
}

async function startFloor(folder: string): Promise<Floor> {
  const log = openSync(join(folder, 'floor.log'), 'a');
  const script = fileURLToPath(new URL('edge-floor-process.ts', import.meta.url));
  const child = fork(script, { stdio: ['ignore', log, 'inherit', 'ipc'] });
  closeSync(log);
  const [port] = (await once(child, 'message')) as [number];
  const url = new URL(`http://127.0.0.1:${port}/push`);
  const connections = createHttpConnections(url, CONCURRENCY);
  return {
    pid: child.pid ?? 0,
    url,
    connections,
    async stop() {
      connections.close();
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}
