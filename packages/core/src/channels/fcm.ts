import { z } from 'zod';
import { type ChannelDescriptor, type HostOverride, hostOverride } from './descriptor.ts';

/**
 * An app's use of FCM for Android devices that connect over MQTT. Seconds after which a device that has not acknowledged
 * gets the push over FCM too; or `first`: it gets the push over FCM at once unless it is connected, and when FCM has
 * accepted the push it has ended for the device. Without a use, Android devices get nothing over FCM.
 */
export type FcmUse = number | 'first';

/** Firebase Cloud Messaging: for phones with an FCM token. No platform has it first: `way` of a device says who has. */
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
      /** The token is of an iOS app: FCM passes the push on to APNs. */
      isApple: z.literal(true).optional(),
    }),
    secrets: [
      z.object({
        kind: z.literal('fcm'),
        projectId: z.string().min(1),
        clientEmail: z.string().min(1),
        /** RSA private key, PEM. */
        privateKey: z.string(),
        privateKeyId: z.string().optional(),
        /** Token server that issues the access tokens; see isTokenServerAllowed. */
        tokenUri: z.url(),
        gateway: hostOverride.optional(),
      }),
    ],
  },
} as const satisfies ChannelDescriptor;

/** Hosts of Google's token servers: the one of today's key files, and those of older ones. */
const TOKEN_HOSTS: readonly string[] = [
  'oauth2.googleapis.com',
  'accounts.google.com',
  'www.googleapis.com',
];

/**
 * Checks whether access tokens may be requested from the server that a key file names. A tenant provides the file, so it may
 * name no other server than Google's, or the gateway that the operator has set for the credential.
 */
export function isTokenServerAllowed(tokenUri: string, gateway?: HostOverride): boolean {
  const url = URL.parse(tokenUri);
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return false;
  return TOKEN_HOSTS.includes(url.host) || url.host === hostOf(gateway);
}

/** Returns the host and port of a gateway as a URL has them. */
function hostOf(gateway: HostOverride | undefined): string | undefined {
  if (gateway === undefined) return undefined;
  const { host, port } = gateway;
  return URL.parse(`https://${host.includes(':') ? `[${host}]` : host}:${port}`)?.host;
}
