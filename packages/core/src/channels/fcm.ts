import { z } from 'zod';
import { type ChannelDescriptor, hostOverride } from './descriptor.ts';

/** Firebase Cloud Messaging: the second channel of Android devices, so it is the first one of no platform. */
export const fcm = {
  name: 'fcm',
  number: 2,
  platforms: [],
  isTracked: false,
  provider: {
    /** Each request has an HTTP/1.1 connection to itself, so this is the number of connections too. */
    window: 100,
    address: z.object({
      channel: z.literal('fcm'),
      /** FCM registration token. */
      address: z.string(),
    }),
    secrets: [
      z.object({
        kind: z.literal('fcm'),
        projectId: z.string().min(1),
        clientEmail: z.string().min(1),
        /** RSA private key, PEM. */
        privateKey: z.string(),
        privateKeyId: z.string().optional(),
        /** Token server that issues the access tokens. */
        tokenUri: z.url(),
        gateway: hostOverride.optional(),
      }),
    ],
  },
} as const satisfies ChannelDescriptor;
