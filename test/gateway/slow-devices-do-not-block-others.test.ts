import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type FleetFixture, openFleetFixture, quantile } from '../support/gateway/fleet-fixture.ts';

/** More with CARILLON_FLEET_SIZE. */
const FLEET_SIZE = Number(process.env.CARILLON_FLEET_SIZE ?? 1_000);
const FROZEN = FLEET_SIZE / 20;
/** More pushes than a device may have in flight. */
const PUSHES = 20;
const DEADLINE_MS = 180_000;

let fixture: FleetFixture;

beforeAll(async () => {
  fixture = await openFleetFixture(FLEET_SIZE);
}, DEADLINE_MS);

afterAll(() => fixture?.stop());

function named(kind: string): string[] {
  return Array.from({ length: PUSHES }, (_, n) => `${kind} ${n}`);
}

/** Sends one push after the other; the p99 of the milliseconds to the devices that are awake. */
async function sendAll(kind: string, receivers: number): Promise<number> {
  for (const name of named(kind)) {
    await fixture.sendToAll(name);
    await fixture.untilArrived([name], receivers, 20);
  }
  const { pushes } = await fixture.fleet.report();
  const latencies = named(kind).flatMap((name) => pushes[name]?.latenciesMs ?? []);
  return quantile(latencies, 0.99);
}

test(
  'when one device in twenty reads nothing, the others are as fast, and no push is lost',
  async () => {
    const awakeMs = await sendAll('all awake', FLEET_SIZE);
    fixture.fleet.freeze(FROZEN);
    const besideFrozenMs = await sendAll('some frozen', FLEET_SIZE - FROZEN);
    process.stdout.write(`p99 ${awakeMs} ms, beside frozen devices ${besideFrozenMs} ms\n`);
    // Twice, for what else the machine does.
    expect(besideFrozenMs).toBeLessThan(2 * awakeMs + 100);
    // Those that acknowledge nothing are closed.
    await fixture.untilOnline(FLEET_SIZE - FROZEN);
    fixture.fleet.thaw();
    await fixture.untilArrived(named('some frozen'), FLEET_SIZE);
  },
  DEADLINE_MS,
);
