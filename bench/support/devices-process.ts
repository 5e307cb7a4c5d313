import { type DeviceAddress, type DeviceCredentials, openDevice } from './bench-device.ts';

/** Commands of the benchmark to a process with devices. */
export type DevicesCommand =
  | { do: 'open'; devices: DeviceCredentials[]; port: number; localAddress: string }
  | { do: 'report' };

/** Reply to `report`. */
export interface DevicesReport {
  connected: number;
  arrived: number;
  /** Seconds of its CPU time. */
  cpu: number;
}

/** Connections opened at once: more would overflow the listen backlog. */
const MAX_CONNECTING = 40;
const report: DevicesReport = { connected: 0, arrived: 0, cpu: 0 };
let waiting: (() => void)[] = [];

/** Reconnects after a rejection, as real devices do: another gateway may have capacity. */
const RECONNECT_DELAY_MS = 300;

const FIRST_PORT = 10_000;
const LAST_PORT = 60_000;
let localPort = FIRST_PORT;

function connect(device: DeviceCredentials, at: DeviceAddress): void {
  let isConnected = false;
  localPort = localPort < LAST_PORT ? localPort + 1 : FIRST_PORT;
  openDevice(
    device,
    { ...at, localPort },
    {
      connected() {
        isConnected = true;
        report.connected += 1;
        waiting.pop()?.();
      },
      arrived() {
        report.arrived += 1;
      },
      closed() {
        if (isConnected) report.connected -= 1;
        else setTimeout(connect, RECONNECT_DELAY_MS, device, at);
      },
    },
  );
}

function openDevices({
  devices,
  port,
  localAddress,
}: Extract<DevicesCommand, { do: 'open' }>): void {
  waiting = devices.map((device) => () => connect(device, { port, localAddress }));
  for (let n = 0; n < MAX_CONNECTING; n += 1) waiting.pop()?.();
}

function sendReport(): void {
  const { user, system } = process.cpuUsage();
  process.send?.({ ...report, cpu: (user + system) / 1e6 });
}

process.on('message', (order: DevicesCommand) =>
  order.do === 'open' ? openDevices(order) : sendReport(),
);
process.on('disconnect', () => process.exit());
