import { createDeviceAuth } from '../../packages/core/src/device-auth.ts';
import { MinimalDevice } from '../../test/support/gateway/minimal-device.ts';
import { AUTH_KEYS } from './server-process.ts';

/** Connects devices in small groups, so that no backlog overflows; they acknowledge every push. */
export interface LoadCommand {
  port: number;
  devices: number;
  isSecure: boolean;
}

const MAX_CONNECTING = 50;
const events = { connected: connectNext, disconnected: () => undefined, arrived: () => undefined };
const pendingDevices: MinimalDevice[] = [];
let opened = 0;

function connectNext(): void {
  pendingDevices.pop()?.open();
}

process.on('message', ({ port, devices, isSecure }: LoadCommand) => {
  for (let n = 0; n < devices; n += 1) {
    opened += 1;
    const token = opened.toString(16).padStart(22, '0');
    const at = { host: '127.0.0.1', port, isSecure };
    const auth = createDeviceAuth(AUTH_KEYS, token);
    pendingDevices.push(new MinimalDevice({ token, auth }, at, events));
  }
  for (let n = 0; n < MAX_CONNECTING; n += 1) connectNext();
});
process.on('disconnect', () => process.exit());
