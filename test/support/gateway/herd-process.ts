import { LeanDevice } from './lean-device.ts';

/** What the test tells the process that plays a herd. */
export type HerdOrder =
  | { do: 'open'; devices: { token: string; auth: string }[]; host: string; port: number }
  | { do: 'cut' }
  | { do: 'freeze'; count: number }
  | { do: 'thaw' }
  | { do: 'report' };

/** What it answers to `report`. */
export interface HerdReport {
  connected: number;
  /** Of each push (its payload's `name`): arrivals, doubles among them, milliseconds from `sentAt` to the arrival. */
  pushes: Record<string, { arrived: number; doubled: number; latenciesMs: number[] }>;
}

const devices: LeanDevice[] = [];
const frozen = new Set<string>();
const seen = new Set<string>();
const report: HerdReport = { connected: 0, pushes: {} };

function arrived(token: string, payload: string): void {
  const { name, sentAt } = JSON.parse(payload) as { name: string; sentAt: number };
  report.pushes[name] ??= { arrived: 0, doubled: 0, latenciesMs: [] };
  const push = report.pushes[name];
  const isDouble = seen.has(`${token} ${name}`);
  seen.add(`${token} ${name}`);
  push.arrived += isDouble ? 0 : 1;
  push.doubled += isDouble ? 1 : 0;
  if (!frozen.has(token)) push.latenciesMs.push(Date.now() - sentAt);
}

const events = {
  arrived,
  connected() {
    report.connected += 1;
  },
  disconnected() {
    report.connected -= 1;
  },
};

function obey(order: HerdOrder): void {
  switch (order.do) {
    case 'open':
      for (const one of order.devices) devices.push(new LeanDevice(one, order, events));
      for (const device of devices) device.open();
      break;
    case 'cut':
      for (const device of devices) device.cut();
      break;
    case 'freeze':
      for (const device of devices.slice(0, order.count)) {
        frozen.add(device.token);
        device.freeze();
      }
      break;
    case 'thaw':
      for (const device of devices) device.thaw();
      frozen.clear();
      break;
    case 'report':
      process.send?.(report);
  }
}

process.on('message', obey);
process.on('disconnect', () => process.exit());
