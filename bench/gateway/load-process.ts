import { LeanDevice } from '../../test/support/gateway/lean-device.ts';

/** Opens devices in small groups, so that no backlog overflows; acknowledges all that comes. */
export interface LoadOrder {
  port: number;
  devices: number;
  isSecure: boolean;
}

const AT_ONCE = 50;
const events = { connected: next, disconnected: () => undefined, arrived: () => undefined };
const waiting: LeanDevice[] = [];
let opened = 0;

function next(): void {
  waiting.pop()?.open();
}

process.on('message', ({ port, devices, isSecure }: LoadOrder) => {
  for (let n = 0; n < devices; n += 1) {
    opened += 1;
    const token = opened.toString(16).padStart(22, '0');
    const at = { host: '127.0.0.1', port, isSecure };
    waiting.push(new LeanDevice({ token, auth: 'a'.repeat(64) }, at, events));
  }
  for (let n = 0; n < AT_ONCE; n += 1) next();
});
process.on('disconnect', () => process.exit());
