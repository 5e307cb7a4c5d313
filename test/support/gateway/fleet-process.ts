import { MinimalDevice } from './minimal-device.ts';

/** Commands from the test to the process that simulates a fleet. */
export type FleetCommand =
  | { do: 'open'; devices: { token: string; auth: string }[]; host: string; port: number }
  | { do: 'cut' }
  | { do: 'freeze'; count: number }
  | { do: 'thaw' }
  | { do: 'report' };

/** Response to `report`. */
export interface FleetReport {
  connected: number;
  /** Of each push (its payload's `name`): arrivals, duplicates among them, milliseconds from `sentAt` to the arrival. */
  pushes: Record<string, { arrived: number; duplicates: number; latenciesMs: number[] }>;
}

const devices: MinimalDevice[] = [];
const frozen = new Set<string>();
const seen = new Set<string>();
const report: FleetReport = { connected: 0, pushes: {} };

function arrived(token: string, payload: string): void {
  const { name, sentAt } = JSON.parse(payload) as { name: string; sentAt: number };
  report.pushes[name] ??= { arrived: 0, duplicates: 0, latenciesMs: [] };
  const push = report.pushes[name];
  const isDuplicate = seen.has(`${token} ${name}`);
  seen.add(`${token} ${name}`);
  push.arrived += isDuplicate ? 0 : 1;
  push.duplicates += isDuplicate ? 1 : 0;
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

function handleCommand(command: FleetCommand): void {
  switch (command.do) {
    case 'open':
      for (const one of command.devices) devices.push(new MinimalDevice(one, command, events));
      for (const device of devices) device.open();
      break;
    case 'cut':
      for (const device of devices) device.cut();
      break;
    case 'freeze':
      for (const device of devices.slice(0, command.count)) {
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

process.on('message', handleCommand);
process.on('disconnect', () => process.exit());
