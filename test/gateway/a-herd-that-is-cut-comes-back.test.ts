import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { liftRateLimit } from '../support/carillon.ts';
import { gatherCrowd } from '../support/faults/crowd.ts';
import { quantile, startApiPulse } from '../support/gateway/api-pulse.ts';
import { type Herd, startHerd } from '../support/gateway/herd.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** CARILLON_HERD=10000 is the whole herd of fault 31; a process may have to open 20,000 files for it. */
const HERD = Number(process.env.CARILLON_HERD ?? 1_000);
const ALL_BACK_MS = 60_000;
const API_P99_MS = 500;
const TOKENS_PER_CALL = 1_000;

let stack: Stack;
let mongo: TestMongo;
let herd: Herd;
let tokens: string[];

beforeAll(async () => {
  stack = await startStack({ env: { CARILLON_ADDRESS_LIMITS: 'off' } });
  await liftRateLimit(stack);
  mongo = await openMongo(stack.dev);
  ({ tokens } = await gatherCrowd(stack, mongo, { registered: HERD, real: 0 }));
  herd = startHerd(stack, tokens);
  await herd.untilConnected();
  await untilPresenceIs(HERD);
}, 150_000);

afterAll(async () => {
  await herd?.stop();
  await mongo?.close();
  await stack?.stop();
});

async function countOnline(): Promise<number> {
  let online = 0;
  for (let at = 0; at < tokens.length; at += TOKENS_PER_CALL) {
    const { json } = await stack.api<{ presence: { online: boolean }[] }>(
      'POST',
      '/devices/presence',
      { tokens: tokens.slice(at, at + TOKENS_PER_CALL) },
    );
    online += json.presence.filter((one) => one.online).length;
  }
  return online;
}

function untilPresenceIs(online: number): Promise<unknown> {
  const isSo = async () => (await countOnline()) === online;
  return until(isSo, { timeoutMs: ALL_BACK_MS, everyMs: 250, what: `${online} devices online` });
}

/** Waits until each named push has arrived somewhere, so often. */
function untilArrived(names: readonly string[], times: number): Promise<unknown> {
  const areHere = async () => {
    const { pushes } = await herd.report();
    return names.every((name) => pushes[name]?.arrived === times);
  };
  return until(areHere, { timeoutMs: 60_000, everyMs: 250, what: `${names.length} pushes` });
}

async function sendToAll(name: string): Promise<void> {
  const data = { name, sentAt: Date.now() };
  expect((await stack.api('POST', '/push', { to: tokens, data })).status).toBe(200);
}

test(`${HERD} devices, cut at once and coming back at once, are all back within 60 s`, async () => {
  const pulse = startApiPulse(stack, tokens, 'pulse');
  herd.cut();
  await sendToAll('while they come back');
  const backMs = await herd.untilConnected(ALL_BACK_MS);
  await untilPresenceIs(HERD);
  await pulse.stop();
  const p99 = quantile(pulse.latenciesMs, 0.99);
  process.stdout.write(
    `herd of ${HERD}: back in ${Math.round(backMs)} ms, API p99 ${Math.round(p99)} ms of ${pulse.latenciesMs.length}\n`,
  );
  expect(pulse.failures).toEqual([]);
  expect(p99).toBeLessThan(API_P99_MS);
  await untilArrived(pulse.accepted, 1);
  await untilArrived(['while they come back'], HERD);
}, 180_000);

test('frozen devices hold up nobody, are closed, and lose nothing', async () => {
  const frozen = HERD / 20;
  const others = HERD - frozen;
  const rounds = 20;
  const names = (kind: string) => Array.from({ length: rounds }, (_, n) => `${kind} ${n}`);
  for (const name of names('all awake')) await sendAndWait(name, HERD);
  herd.freeze(frozen);
  for (const name of names('some frozen')) await sendAndWait(name, others);
  const { pushes } = await herd.report();
  const p99Of = (kind: string) =>
    quantile(
      names(kind).flatMap((name) => pushes[name]?.latenciesMs ?? []),
      0.99,
    );
  const [awake, half] = [p99Of('all awake'), p99Of('some frozen')];
  process.stdout.write(`p99 to the device: all awake ${awake} ms, 5 % frozen ${half} ms\n`);
  expect(half).toBeLessThan(Math.max(2 * awake, awake + 100));
  await untilPresenceIs(others);
  herd.thaw();
  await untilArrived(names('some frozen'), HERD);
}, 180_000);

async function sendAndWait(name: string, receivers: number): Promise<void> {
  await sendToAll(name);
  const isHere = async () => ((await herd.report()).pushes[name]?.arrived ?? 0) >= receivers;
  await until(isHere, { timeoutMs: 20_000, everyMs: 20, what: `${name} at ${receivers}` });
}
