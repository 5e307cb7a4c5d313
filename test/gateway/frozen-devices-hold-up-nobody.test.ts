import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { quantile } from '../support/gateway/api-pulse.ts';
import { type HerdScene, setHerdScene } from '../support/gateway/herd-scene.ts';

/** More with CARILLON_HERD. */
const HERD = Number(process.env.CARILLON_HERD ?? 1_000);
const FROZEN = HERD / 20;
/** More pushes than a device may have in flight. */
const PUSHES = 20;
const DEADLINE_MS = 180_000;

let scene: HerdScene;

beforeAll(async () => {
  scene = await setHerdScene(HERD);
}, DEADLINE_MS);

afterAll(() => scene?.stop());

function named(kind: string): string[] {
  return Array.from({ length: PUSHES }, (_, n) => `${kind} ${n}`);
}

/** Sends one push after the other; the p99 of the milliseconds to the devices that are awake. */
async function sendAll(kind: string, receivers: number): Promise<number> {
  for (const name of named(kind)) {
    await scene.sendToAll(name);
    await scene.untilArrived([name], receivers, 20);
  }
  const { pushes } = await scene.herd.report();
  const latencies = named(kind).flatMap((name) => pushes[name]?.latenciesMs ?? []);
  return quantile(latencies, 0.99);
}

test(
  'when one in twenty reads nothing, the others get theirs as fast, and nobody loses anything',
  async () => {
    const awakeMs = await sendAll('all awake', HERD);
    scene.herd.freeze(FROZEN);
    const besideFrozenMs = await sendAll('some frozen', HERD - FROZEN);
    process.stdout.write(`p99 ${awakeMs} ms, beside frozen devices ${besideFrozenMs} ms\n`);
    // Twice, for what else the machine does.
    expect(besideFrozenMs).toBeLessThan(2 * awakeMs + 100);
    // Those that acknowledge nothing are closed.
    await scene.untilOnline(HERD - FROZEN);
    scene.herd.thaw();
    await scene.untilArrived(named('some frozen'), HERD);
  },
  DEADLINE_MS,
);
