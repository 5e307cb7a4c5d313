import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { quantile, startApiPulse } from '../support/gateway/api-pulse.ts';
import { type HerdScene, mostDevices, setHerdScene } from '../support/gateway/herd-scene.ts';

/** A smaller one is back before the API has answered often enough for a p99. Another with CARILLON_HERD. */
const HERD = Number(process.env.CARILLON_HERD ?? mostDevices(10_000));
/** Side by side, for the same reason. */
const PULSES = 5;
const ALL_BACK_MS = 60_000;
const API_P99_MS = 500;
const DEADLINE_MS = 180_000;

let scene: HerdScene;

beforeAll(async () => {
  scene = await setHerdScene(HERD);
}, DEADLINE_MS);

afterAll(() => scene?.stop());

test(
  `${HERD} devices, cut at once and coming back at once, are all back within 60 s`,
  async () => {
    const { stack, herd, tokens } = scene;
    const pulses = Array.from({ length: PULSES }, (_, n) =>
      startApiPulse(stack, tokens, `pulse ${n}`),
    );
    herd.cut();
    await scene.sendToAll('while they come back');
    const backMs = await herd.untilConnected(ALL_BACK_MS);
    await scene.untilOnline(HERD);
    for (const pulse of pulses) await pulse.stop();
    const latenciesMs = pulses.flatMap((pulse) => pulse.latenciesMs);
    const p99 = quantile(latenciesMs, 0.99);
    process.stdout.write(
      `${HERD} devices back in ${Math.round(backMs)} ms, API p99 ${Math.round(p99)} ms of ${latenciesMs.length}\n`,
    );
    expect(pulses.flatMap(({ failures }) => failures)).toEqual([]);
    expect(p99).toBeLessThan(API_P99_MS);
    const accepted = pulses.flatMap((pulse) => pulse.accepted);
    await scene.untilArrived(accepted, 1);
    await scene.untilArrived(['while they come back'], HERD);
  },
  DEADLINE_MS,
);
