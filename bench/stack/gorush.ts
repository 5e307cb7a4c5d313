import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { freePort } from '../profile/free-port.ts';
import { pushIdOf, type Size, type StackFixture } from '../support/fixture.ts';
import {
  createHttpConnections,
  encodeHttpRequest,
  type HttpConnections,
} from '../support/http-connections.ts';
import { untilDeleted, untilSettled } from '../support/progress.ts';
import {
  isDeliveryProcess,
  readCpuSeconds,
  startUsageMeter,
  sumCpuSeconds,
} from '../support/resource-usage.ts';
import { type Round, ratioRow } from '../support/statistics.ts';
import { until } from '../support/until.ts';
import type { Row } from '../table.ts';

const DEVICES: Record<Size, number> = { quick: 2_000, usual: 5_000, full: 5_000 };
const ROUNDS: Record<Size, number> = { quick: 3, usual: 5, full: 9 };
const WARM_UP_ROUNDS = 3;
const TITLE = 'Your order';
const TEXT = 'It is on its way';
const DATA = { order: '7312' };
/** Platform iOS in gorush's API. */
const IOS = 1;

/** State of the sandbox's APNs. */
interface Apns {
  host: string;
  port: number;
  key: string;
  keyId: string;
  teamId: string;
  bundle: string;
}

/** One push to all devices. */
interface Sent {
  seconds: number;
  cpuSeconds: number;
}

/**
 * Measures a push to 5,000 iPhones against gorush, which stores nothing: from the POST until the sandbox has received the
 * last request, and the CPU of the whole chain.
 *
 * Without the variable `GORUSH` there is nothing to measure. It names a gorush whose APNs client takes the address of its
 * server from `APNS_HOST`; gorush itself has no setting for it. All other settings are gorush's defaults.
 */
export async function gorush(fixture: StackFixture, size: Size): Promise<Row[]> {
  const binary = process.env.GORUSH;
  if (binary === undefined) {
    process.stdout.write('  not measured: the variable GORUSH names no binary\n');
    return [];
  }
  const count = DEVICES[size];
  const response = await fetch(new URL('/credentials', fixture.stack.dev.sandbox));
  const { apns } = (await response.json()) as { apns: Apns };
  const phones = await fixture.audience.registerPhones(count, apns.bundle);
  const baseline = await startGorush(binary, fixture, apns);
  const rounds: { floor: Sent; ours: Sent }[] = [];
  try {
    const body = { notifications: [{ ...gorushPush(apns), tokens: phones.providerTokens }] };
    const theirs = encodeHttpRequest('POST', baseline.url, JSON.stringify(body));
    const notification = { title: TITLE, body: TEXT };
    const push = { to: phones.tokens, data: DATA, notification };
    const ours = fixture.request('POST', '/push', JSON.stringify(push));
    for (let n = 0; n < WARM_UP_ROUNDS + ROUNDS[size]; n += 1) {
      rounds.push({
        floor: await sendByGorush(fixture, baseline, theirs, count),
        ours: await sendByUs(fixture, ours, count),
      });
    }
  } finally {
    await baseline.stop();
  }
  return toRows(rounds.slice(WARM_UP_ROUNDS), count);
}

function gorushPush({ bundle }: Apns) {
  return {
    platform: IOS,
    topic: bundle,
    title: TITLE,
    message: TEXT,
    data: DATA,
    push_type: 'alert',
    development: true,
  };
}

function toRows(rounds: readonly { floor: Sent; ours: Sent }[], count: number): Row[] {
  const pick = (name: keyof Sent, factor: number): Round[] =>
    rounds.map(({ floor, ours }) => ({ floor: floor[name] * factor, ours: ours[name] * factor }));
  const to = `to ${count.toLocaleString('en')} iPhones, against gorush`;
  const ratio = 'ours/floor';
  return [
    ratioRow(`gorush: POST to the sandbox's last receipt ${to}`, pick('seconds', 1), {
      unit: 's',
      ratio,
    }),
    ratioRow(`gorush: CPU of the whole chain a device ${to}`, pick('cpuSeconds', 1e6 / count), {
      unit: 'µs',
      ratio,
    }),
  ];
}

async function sendByGorush(
  { stack }: StackFixture,
  { pid, connections }: Gorush,
  request: Buffer,
  count: number,
): Promise<Sent> {
  const before = readCpuSeconds(pid);
  const seconds = await measureReceipt(stack.dev.sandbox, count, async () => {
    const { status, body } = await connections.send(request);
    if (status !== 200) throw new Error(`gorush: ${status} ${body}`);
  });
  return { seconds, cpuSeconds: readCpuSeconds(pid) - before };
}

/** Sends by Carillon. Its CPU includes the writes after the last request. */
async function sendByUs(fixture: StackFixture, request: Buffer, count: number): Promise<Sent> {
  const { stack, mongo } = fixture;
  const meter = startUsageMeter(stack);
  let push = '';
  const seconds = await measureReceipt(stack.dev.sandbox, count, async () => {
    push = pushIdOf(await fixture.call(request));
  });
  await untilSettled(mongo, push, 10);
  const cpuSeconds = sumCpuSeconds(meter.read().filter(isDeliveryProcess));
  await fixture.call(fixture.request('DELETE', `/pushes/${push}`));
  await untilDeleted(mongo, push);
  await fixture.untilIdle();
  return { seconds, cpuSeconds };
}

/** Measures the seconds until the sandbox has accepted `count` more requests. */
async function measureReceipt(
  sandbox: string,
  count: number,
  send: () => Promise<void>,
): Promise<number> {
  const expected = (await countAccepted(sandbox)) + count;
  const startedAt = performance.now();
  await send();
  const isReceived = async () => (await countAccepted(sandbox)) >= expected;
  await until('the sandbox to have all requests', isReceived, { everyMs: 5 });
  return (performance.now() - startedAt) / 1_000;
}

async function countAccepted(sandbox: string): Promise<number> {
  const response = await fetch(new URL('/counts', sandbox));
  const { byChannel } = (await response.json()) as { byChannel: { apns: { accepted: number } } };
  return byChannel.apns.accepted;
}

/** A running gorush. */
interface Gorush {
  pid: number;
  /** Of its pushes. */
  url: URL;
  connections: HttpConnections;
  stop(): Promise<void>;
}

async function startGorush(
  binary: string,
  { stack }: StackFixture,
  { host, port: apnsPort, key, keyId, teamId }: Apns,
): Promise<Gorush> {
  const port = await freePort();
  const child = spawn(binary, [], {
    cwd: stack.home,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      HOME: stack.home,
      APNS_HOST: `https://${host}:${apnsPort}`,
      SSL_CERT_FILE: join(stack.home, 'sandbox/ca.pem'),
      GORUSH_CORE_ADDRESS: '127.0.0.1',
      GORUSH_CORE_PORT: String(port),
      GORUSH_ANDROID_ENABLED: 'false',
      GORUSH_IOS_ENABLED: 'true',
      GORUSH_IOS_KEY_BASE64: Buffer.from(key).toString('base64'),
      GORUSH_IOS_KEY_TYPE: 'p8',
      GORUSH_IOS_KEY_ID: keyId,
      GORUSH_IOS_TEAM_ID: teamId,
    },
  });
  await once(child, 'spawn');
  const url = new URL(`http://127.0.0.1:${port}/api/push`);
  const isUp = () => isHealthy(child, new URL('/healthz', url));
  await until('gorush', isUp).catch(async (error: unknown) => {
    child.kill('SIGKILL');
    throw error;
  });
  const connections = createHttpConnections(url, 1);
  return {
    pid: child.pid ?? 0,
    url,
    connections,
    async stop() {
      connections.close();
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

async function isHealthy(child: ChildProcess, url: URL): Promise<boolean> {
  if (child.exitCode !== null) throw new Error(`gorush has ended with ${child.exitCode}`);
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}
