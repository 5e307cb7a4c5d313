import { z } from 'zod';
import type { ChannelDescriptor } from './descriptor.ts';

/** Push services of the browsers (RFC 8030). */
export const webPush = {
  name: 'web-push',
  number: 3,
  platforms: ['web'],
  isTracked: false,
  provider: {
    window: 50,
    address: z.object({
      channel: z.literal('web-push'),
      /** The subscription's endpoint. */
      address: z.string(),
      /** The browser's public key and secret (RFC 8291), base64url. */
      p256dh: z.string(),
      auth: z.string(),
    }),
    secrets: [
      z.object({
        kind: z.literal('web-push'),
        /** Uncompressed P-256 point and its scalar, base64url (RFC 8292). */
        publicKey: z.string(),
        privateKey: z.string(),
        /** Contact of the sender for push services: a mailto: or https: URL. */
        contact: z.string(),
      }),
    ],
  },
} as const satisfies ChannelDescriptor;
