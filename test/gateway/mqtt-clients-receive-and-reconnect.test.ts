import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCarillonJson } from '../support/carillon.ts';
import {
  ensureMosquitto,
  ensurePaho,
  publishByMosquitto,
  type RealClient,
  startMosquitto,
  startMqttJs,
  startPaho,
} from '../support/gateway/real-clients.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

let stack: Stack;
let clients: RealClient[] = [];

beforeAll(async () => {
  const [started, paho] = await Promise.all([useKillableStack(), ensurePaho(), ensureMosquitto()]);
  stack = started;
  const { dev } = stack;
  clients = await Promise.all([
    ...(['mqtt', 'mqtts', 'ws'] as const).map((scheme) => startMqttJs(dev, scheme)),
    ...(['mqtt', 'mqtts', 'ws'] as const).map((scheme) => startPaho(dev, scheme, paho)),
    ...(['mqtt', 'mqtts'] as const).map((scheme) => startMosquitto(dev, scheme)),
  ]);
});

afterAll(async () => {
  for (const client of clients) await client.stop();
  await stack?.stop();
});

/** Sends to all clients and waits until each has it and has acknowledged it. */
async function expectAllReceive(text: string): Promise<void> {
  const to = clients.map(({ token }) => token);
  const { json } = await stack.api<{ id: string }>('POST', '/push', { to, data: { text } });
  const payload = JSON.stringify({ text });
  const missing = () => clients.filter(({ payloads }) => !payloads.includes(payload));
  await until(() => missing().length === 0).catch(() => undefined);
  expect(missing().map(({ name }) => name)).toEqual([]);
  await until(async () => {
    const { outcomes } = await runCarillonJson<{ outcomes: Record<string, number> }>(
      stack.home,
      ...['push', 'outcomes', json.id],
    );
    return outcomes.delivered === clients.length;
  });
}

/** A mosquitto_sub whose TLS breaks off ends itself (exit code 7): its user starts it again. */
async function excludeMosquittoOverTls(): Promise<void> {
  const leaver = clients.find(({ name }) => name === 'mosquitto_sub over mqtts');
  clients = clients.filter((client) => client !== leaver);
  await leaver?.stop();
}

function untilAllAreOnline(): Promise<unknown> {
  const tokens = clients.map(({ token }) => token);
  const areOnline = async () => {
    const { json } = await stack.api<{ presence: { online: boolean }[] }>(
      ...(['POST', '/devices/presence', { tokens }] as const),
    );
    return json.presence.every(({ online }) => online);
  };
  return until(areOnline, { everyMs: 200, what: 'all clients online' });
}

test('mqtt.js, paho (needs python3 with pip) and mosquitto_sub (needs mosquitto-clients) receive and acknowledge', async () => {
  await untilAllAreOnline();
  await expectAllReceive('first');
});

test.each([
  ['restarted', 'SIGTERM'],
  ['killed', 'SIGKILL'],
] as const)(
  'the clients reconnect by themselves after the gateways were %s, and pushes sent meanwhile arrive',
  async (how, signal) => {
    if (signal === 'SIGKILL') await excludeMosquittoOverTls();
    const pids = [0, 1].map((index) => stack.kill('device-gateway', signal, index));
    await Promise.all([
      expectAllReceive(`while ${how}`),
      ...pids.map((pid, index) => stack.waitForRestart('device-gateway', pid, index)),
    ]);
    await untilAllAreOnline();
    await expectAllReceive(`after ${how}`);
  },
);

test('no client received a push twice', () => {
  for (const { name, payloads } of clients) {
    expect([name, new Set(payloads).size]).toEqual([name, payloads.length]);
  }
});

test('the connection of mosquitto_pub, which only publishes, is closed', async () => {
  expect(await publishByMosquitto(stack.dev)).not.toBe(0);
});
