import type { ProviderChannelName } from '@carillon/core/channels';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import {
  createApnsSecret,
  createFcmSecret,
  type Sandbox,
  type SandboxCredentials,
} from '../../../test/support/providers/sandbox.ts';
import { DEADLINE_MS as APNS_DEADLINE_MS, apns } from '../src/channels/apns/client.ts';
import { DEADLINE_MS as FCM_DEADLINE_MS, fcm } from '../src/channels/fcm/client.ts';
import { createWebPush } from '../src/channels/web-push/client.ts';
import type { Address, ProviderClient } from '../src/deliver/provider.ts';
import { createAppleAddress, createFcmAddress } from './pushes.ts';
import { createSecret, subscribeBrowser } from './web-push/browser.ts';

/** A channel against the sandbox. */
export interface ChannelUnderTest {
  connect(credentials: SandboxCredentials): ProviderClient;
  /** Creates the address of a device by a name. */
  createAddress(sandbox: Sandbox, name: string): Promise<Address>;
  window: number;
  deadlineMs: number;
}

export const CHANNELS: Record<ProviderChannelName, ChannelUnderTest> = {
  apns: {
    connect: (credentials) => apns.connect(createApnsSecret(credentials)),
    createAddress: async (_, name) => createAppleAddress(name),
    window: apns.window,
    deadlineMs: APNS_DEADLINE_MS,
  },
  fcm: {
    connect: (credentials) => fcm.connect(createFcmSecret(credentials)),
    createAddress: async (_, name) => createFcmAddress(name),
    window: fcm.window,
    deadlineMs: FCM_DEADLINE_MS,
  },
  'web-push': {
    connect: ({ webPush: { host, port }, ca }) =>
      createWebPush({ hosts: parsePushHosts([`${host}:${port}`]), ca }).connect(createSecret()),
    createAddress: subscribeBrowser,
    window: 50,
    deadlineMs: 10_000,
  },
};
