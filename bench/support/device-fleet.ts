import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { DeviceCredentials } from './bench-device.ts';
import type { DevicesCommand, DevicesReport } from './devices-process.ts';
import { until } from './until.ts';

/** Connections to the floor and to the stack must fit into the limit of 20,000 open files per process. */
const DEVICES_PER_PROCESS = 8_400;
const CONNECT_MS = 120_000;

/** Thousands of devices in child processes, which acknowledge every push. */
export interface DeviceFleet {
  /** Connects every device once, to one of these ports. */
  connect(ports: readonly number[]): Promise<void>;
  /** Returns the sum over all processes. */
  report(): Promise<DevicesReport>;
  stop(): Promise<void>;
}

/**
 * Starts the processes without connecting the devices.
 *
 * @param servers the devices are distributed evenly over them
 * @param network differs for each fleet of a benchmark: two would share local addresses and their ports
 */
export function startDeviceFleet(
  devices: readonly DeviceCredentials[],
  servers: number,
  network = 1,
): DeviceFleet {
  const perServer = Math.ceil(devices.length / DEVICES_PER_PROCESS / servers);
  const groups = splitEvenly(devices, perServer * servers);
  const children = groups.map(() =>
    // Detached: Linux shares the CPU among sessions first, and the processes of the stack have one each.
    fork(fileURLToPath(new URL('devices-process.ts', import.meta.url)), {
      execArgv: [],
      detached: true,
    }),
  );
  let expected = 0;

  async function report(): Promise<DevicesReport> {
    const reports = await Promise.all(children.map(requestReport));
    const sum = (name: keyof DevicesReport) => reports.reduce((all, one) => all + one[name], 0);
    return { connected: sum('connected'), arrived: sum('arrived'), cpu: sum('cpu') };
  }

  return {
    report,
    async connect(ports) {
      for (const [index, child] of children.entries()) {
        const port = ports[index % ports.length] ?? 0;
        const localAddress = `127.0.${network}.${index + 1}`;
        const some = groups[index] ?? [];
        child.send({ do: 'open', devices: some, port, localAddress } satisfies DevicesCommand);
      }
      expected += devices.length;
      const areThere = async () => (await report()).connected === expected;
      await until('all devices to be connected', areThere, { timeoutMs: CONNECT_MS });
    },
    stop: async () => {
      await Promise.all(children.map(stopProcess));
    },
  };
}

function splitEvenly<T>(items: readonly T[], parts: number): T[][] {
  const size = Math.ceil(items.length / parts);
  return Array.from({ length: parts }, (_, n) => items.slice(n * size, (n + 1) * size));
}

async function requestReport(child: ChildProcess): Promise<DevicesReport> {
  const replied = once(child, 'message');
  child.send({ do: 'report' } satisfies DevicesCommand);
  const [report] = (await replied) as [DevicesReport];
  return report;
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
}
