import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { DevicesOrder, DevicesReport } from './devices-process.ts';
import type { Identity } from './lean-device.ts';
import { until } from './until.ts';

/** Links to both a floor and a stack have to fit into the 20,000 files that a process may open. */
const DEVICES_PER_PROCESS = 8_400;
const CONNECT_MS = 120_000;

/** Thousands of devices, played by processes of their own, which acknowledge whatever comes. */
export interface Herd {
  /** Connects every device once, to one of these ports. */
  connect(ports: readonly number[]): Promise<void>;
  /** The sum over all processes. */
  report(): Promise<DevicesReport>;
  stop(): Promise<void>;
}

/**
 * Starts the processes; nothing is connected yet.
 *
 * @param servers between which the devices are to be divided evenly
 */
export function startHerd(devices: readonly Identity[], servers: number): Herd {
  const perServer = Math.ceil(devices.length / DEVICES_PER_PROCESS / servers);
  const groups = divide(devices, perServer * servers);
  const children = groups.map(() =>
    fork(fileURLToPath(new URL('devices-process.ts', import.meta.url)), { execArgv: [] }),
  );
  let expected = 0;

  async function report(): Promise<DevicesReport> {
    const reports = await Promise.all(children.map(ask));
    const sum = (name: keyof DevicesReport) => reports.reduce((all, one) => all + one[name], 0);
    return { connected: sum('connected'), arrived: sum('arrived'), cpu: sum('cpu') };
  }

  return {
    report,
    async connect(ports) {
      for (const [index, child] of children.entries()) {
        const port = ports[index % ports.length] ?? 0;
        const localAddress = `127.0.1.${index + 1}`;
        const some = groups[index] ?? [];
        child.send({ do: 'open', devices: some, port, localAddress } satisfies DevicesOrder);
      }
      expected += devices.length;
      const areThere = async () => (await report()).connected === expected;
      await until('all devices to be connected', areThere, { timeoutMs: CONNECT_MS });
    },
    stop: async () => {
      await Promise.all(children.map(end));
    },
  };
}

function divide<T>(items: readonly T[], parts: number): T[][] {
  const size = Math.ceil(items.length / parts);
  return Array.from({ length: parts }, (_, n) => items.slice(n * size, (n + 1) * size));
}

async function ask(child: ChildProcess): Promise<DevicesReport> {
  const answered = once(child, 'message');
  child.send({ do: 'report' } satisfies DevicesOrder);
  const [report] = (await answered) as [DevicesReport];
  return report;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.disconnect();
  await ended;
}
