import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createDeviceAuth, parseDeviceAuthKeys } from '../../../packages/core/src/device-auth.ts';
import { removeRateLimit } from '../carillon.ts';
import { createDevicePool } from '../faults/device-pool.ts';
import { openMongo } from '../mongo.ts';
import { type Stack, startStack } from '../stack.ts';
import { until } from '../until.ts';
import type { FleetCommand, FleetReport } from './fleet-process.ts';

const TOKENS_PER_CALL = 1_000;
const TIMEOUT_MS = 60_000;
const PROBE_INTERVAL_MS = 40;

/** A stack with a fleet of devices that are all online. */
export type FleetFixture = Awaited<ReturnType<typeof openFleetFixture>>;

export async function openFleetFixture(size: number) {
  const stack = await startStack({ env: { CARILLON_ADDRESS_LIMITS: 'off' } });
  await removeRateLimit(stack);
  const mongo = await openMongo(stack.dev);
  const { tokens } = await createDevicePool(stack, mongo, { registered: size, real: 0 });
  const fleet = startDeviceFleet(stack, tokens);

  /** Waits until exactly so many devices of the fleet are online for the API. */
  function untilOnline(count: number): Promise<unknown> {
    const areOnline = async () => (await countOnline(stack, tokens)) === count;
    return until(areOnline, { timeoutMs: TIMEOUT_MS, everyMs: 500, what: `${count} online` });
  }

  await fleet.untilConnected();
  await untilOnline(size);
  return {
    stack,
    fleet,
    tokens,
    untilOnline,
    /** Sends one push to all devices of the fleet. */
    async sendToAll(name: string): Promise<void> {
      const data = { name, sentAt: Date.now() };
      const { status, text } = await stack.api('POST', '/push', { to: tokens, data });
      if (status !== 200) throw new Error(`push: ${status} ${text}`);
    },
    /** Waits until each named push has arrived at so many devices. */
    untilArrived(names: readonly string[], devices: number, everyMs = 250): Promise<unknown> {
      const areHere = async () => {
        const { pushes } = await fleet.report();
        return names.every((name) => pushes[name]?.arrived === devices);
      };
      const what = `${names.length} pushes at ${devices} devices`;
      return until(areHere, { timeoutMs: TIMEOUT_MS, everyMs, what });
    },
    async stop(): Promise<void> {
      await fleet.stop();
      await mongo.close();
      await stack.stop();
    },
  };
}

/** Connects thousands of minimal devices, simulated by a process of their own. */
function startDeviceFleet(stack: Stack, tokens: readonly string[]) {
  const child = fork(fileURLToPath(new URL('fleet-process.ts', import.meta.url)), { execArgv: [] });
  const { hostname, port } = new URL(stack.dev.mqtt);
  const secrets = JSON.parse(readFileSync(`${stack.home}/secrets.json`, 'utf8'));
  const keys = parseDeviceAuthKeys(secrets.deviceAuthKeys);
  const devices = tokens.map((token) => ({ token, auth: createDeviceAuth(keys, token) }));
  const sendCommand = (command: FleetCommand) => void child.send(command);
  const report = () => requestReport(child);
  sendCommand({ do: 'open', devices, host: hostname, port: Number(port) });

  return {
    /** Cuts all connections at the same moment; each device reconnects at once. */
    cut: () => sendCommand({ do: 'cut' }),
    /** The first `count` devices read nothing more. */
    freeze: (count: number) => sendCommand({ do: 'freeze', count }),
    thaw: () => sendCommand({ do: 'thaw' }),
    report,
    /** Waits until all are connected. Returns the milliseconds it took. */
    async untilConnected(timeoutMs = TIMEOUT_MS): Promise<number> {
      const startedAt = performance.now();
      const areConnected = async () => (await report()).connected === tokens.length;
      await until(areConnected, { timeoutMs, everyMs: 100, what: 'all devices connected' });
      return performance.now() - startedAt;
    },
    async stop(): Promise<void> {
      if (child.exitCode !== null) return;
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

async function requestReport(child: ChildProcess): Promise<FleetReport> {
  const replied = once(child, 'message');
  child.send({ do: 'report' } satisfies FleetCommand);
  const [report] = (await replied) as [FleetReport];
  return report;
}

async function countOnline(stack: Stack, tokens: readonly string[]): Promise<number> {
  let online = 0;
  for (let at = 0; at < tokens.length; at += TOKENS_PER_CALL) {
    const some = { tokens: tokens.slice(at, at + TOKENS_PER_CALL) };
    const response = await stack.api<{ presence: { online: boolean }[] }>(
      ...(['POST', '/devices/presence', some] as const),
    );
    if (response.status !== 200) throw new Error(`presence: ${response.status} ${response.text}`);
    online += response.json.presence.filter((one) => one.online).length;
  }
  return online;
}

/** Sends single pushes to these devices by turns, one after another, until stopped. */
export function startApiProbe(stack: Stack, tokens: readonly string[], prefix: string) {
  const probe = {
    /** How long the API took for each, milliseconds. */
    latenciesMs: [] as number[],
    /** Names of the pushes that were accepted, for the report of the fleet. */
    accepted: [] as string[],
    /** Statuses of responses other than 200. */
    failures: [] as number[],
  };
  let isStopped = false;

  async function run(): Promise<void> {
    for (let n = 0; !isStopped; n += 1) {
      const data = { name: `${prefix} ${n}`, sentAt: Date.now() };
      const to = tokens[(n * 7_919) % tokens.length];
      const startedAt = performance.now();
      const { status } = await stack.api('POST', '/push', { to, data });
      probe.latenciesMs.push(performance.now() - startedAt);
      if (status === 200) probe.accepted.push(data.name);
      else probe.failures.push(status);
      await sleep(PROBE_INTERVAL_MS);
    }
  }

  const running = run();
  return {
    ...probe,
    async stop(): Promise<void> {
      isStopped = true;
      await running;
    },
  };
}

/** The value below which a share of all values are; 0.99 for p99. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
