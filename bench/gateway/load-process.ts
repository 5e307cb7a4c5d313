import { createDeviceAuth } from '../../packages/core/src/device-auth.ts';
import { MinimalDevice } from '../../test/support/gateway/minimal-device.ts';
import { AUTH_KEYS } from './server-process.ts';

/** Connects devices in small groups, so that no backlog overflows; they acknowledge every push. */
export interface LoadCommand {
  port: number;
  devices: number;
  way: Way;
}

/** How devices connect: directly, over TLS, or through a load balancer that terminates TLS and sends a PROXY header. */
export type Way = 'plain' | 'tls' | 'proxy';

/** Version 2, of a client with an address of IPv4 (specification of the PROXY protocol, 2.2). */
const PROXY_HEADER = Buffer.from('0d0a0d0a000d0a515549540a2111000cc63364070a0000011f90075b', 'hex');

const MAX_CONNECTING = 50;
const events = { connected: connectNext, disconnected: () => undefined, arrived: () => undefined };
const pendingDevices: MinimalDevice[] = [];
let opened = 0;

function connectNext(): void {
  pendingDevices.pop()?.open();
}

process.on('message', ({ port, devices, way }: LoadCommand) => {
  for (let n = 0; n < devices; n += 1) {
    opened += 1;
    const token = opened.toString(16).padStart(22, '0');
    const at = {
      ...{ host: '127.0.0.1', port, isSecure: way === 'tls' },
      ...(way === 'proxy' && { proxyHeader: PROXY_HEADER }),
    };
    const auth = createDeviceAuth(AUTH_KEYS, token);
    pendingDevices.push(new MinimalDevice({ token, auth }, at, events));
  }
  for (let n = 0; n < MAX_CONNECTING; n += 1) connectNext();
});
process.on('disconnect', () => process.exit());
