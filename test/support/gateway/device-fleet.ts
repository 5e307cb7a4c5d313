import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createDeviceAuth, parseDeviceAuthKeys } from '../../../packages/core/src/device-auth.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';
import type { FleetCommand, FleetReport } from './fleet-process.ts';

/** Thousands of minimal devices, simulated by a process of their own. */
export interface DeviceFleet {
  /** Cuts all connections at the same moment; each device reconnects at once. */
  cut(): void;
  /** The first `count` devices read nothing more. */
  freeze(count: number): void;
  thaw(): void;
  report(): Promise<FleetReport>;
  /** Waits until all are connected. Returns the milliseconds it took. */
  untilConnected(timeoutMs?: number): Promise<number>;
  stop(): Promise<void>;
}

/** Connects registered devices. */
export function startDeviceFleet(stack: Stack, tokens: readonly string[]): DeviceFleet {
  const child = fork(fileURLToPath(new URL('fleet-process.ts', import.meta.url)), { execArgv: [] });
  const { hostname, port } = new URL(stack.dev.mqtt);
  const authOf = createDeviceAuthFor(stack);
  const devices = tokens.map((token) => ({ token, auth: authOf(token) }));
  const sendCommand = (command: FleetCommand) => void child.send(command);
  const report = () => requestReport(child);
  sendCommand({ do: 'open', devices, host: hostname, port: Number(port) });

  return {
    cut: () => sendCommand({ do: 'cut' }),
    freeze: (count) => sendCommand({ do: 'freeze', count }),
    thaw: () => sendCommand({ do: 'thaw' }),
    report,
    async untilConnected(timeoutMs = 60_000) {
      const startedAt = performance.now();
      const areConnected = async () => (await report()).connected === tokens.length;
      await until(areConnected, { timeoutMs, everyMs: 100, what: 'all devices connected' });
      return performance.now() - startedAt;
    },
    async stop() {
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

function createDeviceAuthFor(stack: Stack): (token: string) => string {
  const text = readFileSync(`${stack.home}/secrets.json`, 'utf8');
  const { deviceAuthKeys } = JSON.parse(text) as { deviceAuthKeys: string };
  const keys = parseDeviceAuthKeys(deviceAuthKeys);
  return (token) => createDeviceAuth(keys, token);
}
