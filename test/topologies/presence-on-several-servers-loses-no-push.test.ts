import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { describeRedisUrl } from '../../packages/core/src/redis-url.ts';
import { createChoice } from '../../packages/presence/src/shard-choice.ts';
import { removeRateLimit, runCarillonHere } from '../support/carillon.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { expectBothPresencesLoseNothing } from '../support/topologies/other-presence.ts';
import { until } from '../support/until.ts';

const SETUP_MS = 180_000;
const TEST_MS = 300_000;
const DEVICES = 30;
const LOAD = { perSecond: 20, perPush: 3 };
const PUSHES = 40;
/** Ten seconds until the server counts as unavailable, five until gateways read it, eight for all inboxes; a busy machine. */
const BY_INBOX = { timeoutMs: 90_000, everyMs: 100 };
const SOON = { timeoutMs: 30_000, everyMs: 50 };

/** Those of the list, and one that joins it. */
let servers: RedisServer[];
let fixture: Fixture;
beforeAll(async () => {
  servers = [await createRedisServer(), await createRedisServer(), await createRedisServer()];
  await Promise.all(servers.map((server) => server.start()));
  const env = { PRESENCE_REDIS_URL: listOf(2) };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { apis: 1, env });
  await removeRateLimit(fixture.stack);
}, SETUP_MS);
afterAll(async () => {
  await fixture?.close();
  await Promise.all((servers ?? []).map((server) => server.remove()));
}, SETUP_MS);

/** Returns the list of the first servers. */
function listOf(length: number): string {
  return urlsOf(length).join();
}

const urlsOf = (length: number) => servers.slice(0, length).map(({ url }) => url);

/** Returns the devices whose entries are on a server of the first two. */
function devicesOn(server: number): MqttDevice[] {
  const choose = createChoice(urlsOf(2).map(describeRedisUrl));
  return fixture.pool.devices.filter(({ token }) => choose(token) === server);
}

const tokensOf = (devices: readonly MqttDevice[]) => devices.map(({ token }) => token);

async function untilAllHave(
  devices: readonly MqttDevice[],
  push: SentPush,
  polling = SOON,
): Promise<void> {
  await until(() => devices.every((device) => countArrivals(device, push) > 0), polling);
}

test(
  'one server unavailable: its devices get pushes from their inbox, others live, and all live after its restart',
  async () => {
    const { stack, pool } = fixture;
    const [others, own] = [devicesOn(0), devicesOn(1)];
    expect(others.length * own.length).toBeGreaterThan(0);
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      await servers[1]?.kill();
      const goneAt = performance.now();
      await untilAllHave(others, await sendPush(stack, tokensOf(others)));
      // While it is gone.
      await untilAllHave(pool.devices, await sendPush(stack, tokensOf(pool.devices)), BY_INBOX);
      const tookMs = Math.round(performance.now() - goneAt);
      process.stdout.write(`by inbox ${tookMs} ms after the server is gone\n`);
      await load.untilAccepted(PUSHES);
      await servers[1]?.start();
      await load.untilAccepted(PUSHES);
    });
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    await expectWholeOrAbsent('a server of presence gone', fixture, sent);
  },
  TEST_MS,
);

test('carillon doctor names each server', async () => {
  const { home } = fixture.stack;
  const env = { PRESENCE_REDIS_URL: listOf(2) };
  const { stdout } = await runCarillonHere(home, ['--json', 'doctor'], env);
  const findings = JSON.parse(stdout) as { check: string; ok: boolean }[];
  const checks = findings.filter(({ check, ok }) => ok && /^presence redis \d$/.test(check));
  expect(checks.map(({ check }) => check)).toEqual(['presence redis 1', 'presence redis 2']);
});

test.each([
  ['a server joins the list', 3],
  ['a server leaves the list', 1],
])(
  '%s: gateways and workers of both lists beside each other lose no push',
  async (label, length) => {
    const url = listOf(length);
    await expectBothPresencesLoseNothing(fixture, { label, url, devices: DEVICES });
  },
  TEST_MS,
);
