import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type FleetFixture,
  openFleetFixture,
  quantile,
  startApiProbe,
} from '../support/gateway/fleet-fixture.ts';
import { createLagRecord } from '../support/observer-lag.ts';

/**
 * No more than a listening socket's backlog, or the kernel's second tries would fill the loopback that the API
 * shares here with the devices, and be measured. Ten thousand by CARILLON_FLEET_SIZE=10000; a process must be
 * allowed to open 12,000 files.
 */
const FLEET_SIZE = Number(process.env.CARILLON_FLEET_SIZE ?? 3_000);
/** The devices are back too soon to tell a p99 from the slowest of a few: several cuts, and probes side by side. */
const CUTS = 5;
const PROBES = 5;
const ALL_BACK_MS = 60_000;
const API_P99_MS = 500;
const DEADLINE_MS = 180_000;

let fixture: FleetFixture;

beforeAll(async () => {
  fixture = await openFleetFixture(FLEET_SIZE);
}, DEADLINE_MS);

afterAll(() => fixture?.stop());

test(
  `${FLEET_SIZE} devices, all cut at once ${CUTS} times, are all connected again within 60 s of each cut`,
  async () => {
    const { stack, fleet, tokens } = fixture;
    const pulses = Array.from({ length: PROBES }, (_, n) =>
      startApiProbe(stack, tokens, `pulse ${n}`),
    );
    fleet.cut();
    await fixture.sendToAll('while they come back');
    const lags = createLagRecord();
    const backMs = [await lags.during(fleet.untilConnected(ALL_BACK_MS))];
    while (backMs.length < CUTS) {
      fleet.cut();
      backMs.push(await lags.during(fleet.untilConnected(ALL_BACK_MS)));
    }
    // Responses of the API after all devices are back would not measure the time before.
    for (const pulse of pulses) await pulse.stop();
    await fixture.untilOnline(FLEET_SIZE);
    const latenciesMs = pulses.flatMap((pulse) => pulse.latenciesMs);
    const p99 = quantile(latenciesMs, 0.99);
    process.stdout.write(
      `${FLEET_SIZE} devices back in ${backMs.map(Math.round).join(', ')} ms, API p99 ${Math.round(p99)} ms of ${latenciesMs.length}\n`,
    );
    expect(pulses.flatMap(({ failures }) => failures)).toEqual([]);
    expect(p99).toBeLessThan(API_P99_MS + 3 * lags.maxMs());
    const accepted = pulses.flatMap((pulse) => pulse.accepted);
    await fixture.untilArrived(accepted, 1);
    await fixture.untilArrived(['while they come back'], FLEET_SIZE);
  },
  DEADLINE_MS,
);
