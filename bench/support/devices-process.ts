import { type DeviceAddress, type Identity, openDevice } from './lean-device.ts';

/** What the bench tells a process that plays devices. */
export type DevicesOrder =
  | { do: 'open'; devices: Identity[]; port: number; localAddress: string }
  | { do: 'report' };

/** What it answers to `report`. */
export interface DevicesReport {
  connected: number;
  arrived: number;
  /** Seconds of its CPU so far. */
  cpu: number;
}

/** Opened at once: more would overflow a backlog. */
const AT_ONCE = 40;
const report: DevicesReport = { connected: 0, arrived: 0, cpu: 0 };
let waiting: (() => void)[] = [];

/** A gateway that is full turns devices away, and another has room: like real ones they come again. */
const COME_AGAIN_MS = 300;

const FIRST_PORT = 10_000;
const LAST_PORT = 60_000;
let localPort = FIRST_PORT;

function connect(device: Identity, at: DeviceAddress): void {
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
        else setTimeout(connect, COME_AGAIN_MS, device, at);
      },
    },
  );
}

function open({ devices, port, localAddress }: Extract<DevicesOrder, { do: 'open' }>): void {
  waiting = devices.map((device) => () => connect(device, { port, localAddress }));
  for (let n = 0; n < AT_ONCE; n += 1) waiting.pop()?.();
}

function answer(): void {
  const { user, system } = process.cpuUsage();
  process.send?.({ ...report, cpu: (user + system) / 1e6 });
}

process.on('message', (order: DevicesOrder) => (order.do === 'open' ? open(order) : answer()));
process.on('disconnect', () => process.exit());
