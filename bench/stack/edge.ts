import { fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inTurns, ratioRow } from '../support/figures.ts';
import { createHttpLinks, type HttpLinks, httpRequest } from '../support/http-links.ts';
import { inFlight } from '../support/pace.ts';
import type { Scene, Size } from '../support/scene.ts';
import { cpuSeconds, pidOf } from '../support/usage.ts';
import type { Row } from '../table.ts';

const AT_ONCE = 64;
const ROUNDS = 7;
const REQUESTS: Record<Size, number> = { quick: 5_000, usual: 15_000, full: 30_000 };

/** Refused at the end of parsing, for its time is past, before anything is looked up. */
const BODY = JSON.stringify({
  to: 'a'.repeat(22),
  data: { message: 'Hello World!', badge: 3, link: 'https://example.com/orders/7312' },
  notification: { title: 'Your order', body: 'It is on its way', sound: 'ping.aiff' },
  time_to_live: 86_400,
  collapse_key: 'order-7312',
  content_available: true,
  schedule: 1_000_000_000,
});

/** CPU that the API takes for a request that is read, checked, refused and logged. */
export async function edge(scene: Scene, size: Size): Promise<Row[]> {
  const floor = await startFloor(scene.stack.home);
  try {
    const ours = { pid: pidOf(scene.stack, 'api'), links: scene.links };
    const request = scene.request('POST', '/push', BODY);
    const measure = (one: Pick<Floor, 'pid' | 'links'>, bytes: Buffer) =>
      cpuPerRequest(one, bytes, REQUESTS[size]);
    const floorRequest = httpRequest('POST', floor.url, BODY);
    const rounds = await inTurns(
      ROUNDS + 1,
      () => measure(floor, floorRequest),
      () => measure(ours, request),
    );
    const what = 'edge: requests a CPU-second against bare node:http';
    const goal = { atLeast: 0.5 };
    // The first is for the compiler.
    return [ratioRow(what, rounds.slice(1), { unit: 'µs', goal, ratio: 'floor/ours' })];
  } finally {
    await floor.stop();
  }
}

async function cpuPerRequest(
  { pid, links }: Pick<Floor, 'pid' | 'links'>,
  request: Buffer,
  count: number,
): Promise<number> {
  const before = cpuSeconds(pid);
  await inFlight(count, AT_ONCE, async () => {
    const { status, body } = await links.send(request);
    if (status !== 400) throw new Error(`not refused: ${status} ${body}`);
  });
  return ((cpuSeconds(pid) - before) * 1e6) / count;
}

interface Floor {
  pid: number;
  url: URL;
  links: HttpLinks;
  stop(): Promise<void>;
}

async function startFloor(folder: string): Promise<Floor> {
  const log = openSync(join(folder, 'floor.log'), 'a');
  const script = fileURLToPath(new URL('edge-floor-process.ts', import.meta.url));
  const child = fork(script, { stdio: ['ignore', log, 'inherit', 'ipc'] });
  closeSync(log);
  const [port] = (await once(child, 'message')) as [number];
  const url = new URL(`http://127.0.0.1:${port}/push`);
  const links = createHttpLinks(url, AT_ONCE);
  return {
    pid: child.pid ?? 0,
    url,
    links,
    async stop() {
      links.close();
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}
