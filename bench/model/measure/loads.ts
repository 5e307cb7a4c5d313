import { setTimeout as sleep } from 'node:timers/promises';
import type { StackFixture } from '../../support/fixture.ts';
import { runAtRate } from '../../support/load-patterns.ts';
import { untilSettled } from '../../support/progress.ts';
import type { PresenceServer } from './resources.ts';

export const GATEWAYS = 8;
/** Connected devices without and with an inbox row. */
export const CONNECTED_WITHOUT_ROW = 40_000;
export const CONNECTED_WITH_ROW = 10_000;
export const ROUNDS = 3;
/** Receipts and settlements that are still written after the last response. */
const AFTER_LOAD_MS = 500;
export const PAYLOAD = { message: 'x'.repeat(180) };

/** The devices of a measuring run. */
export interface Run {
  fixture: StackFixture;
  presence: PresenceServer;
  /** Connected tokens of each gateway. */
  byGateway: string[][];
  offlineTokens: string[];
}

/** A load that is repeated: its rounds alternate with those of the others. */
export interface Load {
  name: string;
  perSecond?: number;
  seconds?: number;
  /** Recipients of the n-th push. */
  recipients(run: Run, n: number): string | string[];
  /** Gateways to which the recipients of a push are connected; absent: no recipient is connected. */
  gateways?: number;
  /** Times in all rounds; a large push is sent once. */
  rounds?: number;
}

export const single = (perSecond: number): Load => ({
  name: `single at ${perSecond}/s`,
  perSecond,
  seconds: 5,
  recipients: ({ byGateway }, n) => takeSpread(byGateway, n, 1),
  gateways: 1,
});
export const group = (size: number, perSecond: number): Load => ({
  name: `group of ${size}`,
  perSecond,
  seconds: 6,
  recipients: ({ byGateway }, n) => takeSpread(byGateway, n, size),
  gateways: GATEWAYS,
});
export const burst = (size: number): Load => ({
  name: `push to ${size}`,
  recipients: ({ byGateway }, n) => takeSpread(byGateway, n, size),
  gateways: GATEWAYS,
});

/** The loads of a run. Some are fitted, the others check the model (bench/model/costs.ts, bench/model/check.ts). */
export const LOADS: readonly Load[] = [
  single(50),
  single(200),
  single(300),
  single(600),
  {
    name: 'single, offline',
    perSecond: 200,
    seconds: 4,
    recipients: ({ offlineTokens }, n) => offlineTokens[n % offlineTokens.length] ?? '',
  },
  {
    name: 'group of 8 on one gateway',
    perSecond: 100,
    seconds: 6,
    recipients: ({ byGateway }, n) => takeSpread([byGateway[n % GATEWAYS] ?? []], n, 8),
    gateways: 1,
  },
  group(8, 100),
  group(100, 20),
  group(1_000, 3),
  burst(5_000),
  burst(10_000),
  burst(20_000),
  { ...burst(CONNECTED_WITHOUT_ROW + CONNECTED_WITH_ROW), rounds: 1 },
];

/** Sends the pushes of a load and waits until all outcomes are stored. @returns their number */
export async function sendLoad(run: Run, load: Load): Promise<number> {
  const { fixture } = run;
  const send = (n: number) => fixture.push(load.recipients(run, n), { data: PAYLOAD });
  const { perSecond, seconds = 0 } = load;
  const pushes = perSecond === undefined ? 1 : perSecond * seconds;
  if (perSecond === undefined) await untilSettled(fixture.mongo, await send(0), 50);
  else await runAtRate(perSecond, pushes, async (n) => void (await send(n)));
  await sleep(AFTER_LOAD_MS);
  await fixture.untilIdle();
  return pushes;
}

/** Takes tokens from all gateways by turns. One token is returned as text, as a backend sends it. */
function takeSpread(byGateway: readonly string[][], n: number, size: number): string | string[] {
  const taken: string[] = [];
  for (let k = 0; taken.length < size; k += 1) {
    const tokens = byGateway[(n + k) % byGateway.length] ?? [];
    const index = Math.floor(k / byGateway.length);
    const offset = size < tokens.length ? n * size : 0;
    const token = tokens[(offset + index) % tokens.length];
    if (index < tokens.length || byGateway.length === 1) taken.push(token ?? '');
    if (index > 50_000) throw new Error('too few devices');
  }
  return size === 1 ? (taken[0] ?? '') : taken;
}
