import { z } from 'zod';
import { type ChannelDescriptor, hostOverride } from './descriptor.ts';

const appleId = z.string().regex(/^[0-9A-Z]{10}$/, 'must be 10 characters, A to Z and 0 to 9');

/** APNs has two servers; the build of an app decides which one has its devices. */
const appleEnvironment = z.enum(['development', 'production']);
export type AppleEnvironment = z.infer<typeof appleEnvironment>;

/**
 * What a token is for (`pushKind` at /register), with the suffix that the topic of its notifications has after the bundle id
 * (Apple, "Sending notification requests to APNs", apns-push-type).
 */
export const TOPIC_SUFFIXES = {
  alert: '',
  liveactivity: '.push-type.liveactivity',
  voip: '.voip',
  complication: '.complication',
  fileprovider: '.pushkit.fileprovider',
  /** Its topic is the subject of the MDM certificate, which the device registers as the bundle id. */
  mdm: '',
  location: '.location-query',
  pushtotalk: '.voip-ptt',
  widgets: '.push-type.widgets',
} as const;
export type PushKind = keyof typeof TOPIC_SUFFIXES;
export const PUSH_KINDS = Object.keys(TOPIC_SUFFIXES) as [PushKind, ...PushKind[]];

/** Apple Push Notification service. */
export const apns = {
  name: 'apns',
  number: 1,
  platforms: ['ios'],
  isTracked: false,
  provider: {
    /** A lost connection or worker leaves this many outcomes unknown, so no more than the round trip needs. */
    window: 150,
    address: z.object({
      channel: z.literal('apns'),
      /** APNs device token, hex, lower case. */
      address: z.string(),
      environment: appleEnvironment,
      /** The app's topic at APNs. */
      bundle: z.string(),
      /** Absent: `alert`. */
      kind: z.enum(PUSH_KINDS).optional(),
    }),
    secrets: [
      z.object({
        kind: z.literal('apns-token'),
        /** The .p8 file: a P-256 private key, PEM. */
        key: z.string(),
        keyId: appleId,
        teamId: appleId,
        gateway: hostOverride.optional(),
      }),
      z.object({
        kind: z.literal('apns-certificate'),
        /** PEM, the leaf first. */
        certificate: z.string(),
        /** PEM. */
        key: z.string(),
        gateway: hostOverride.optional(),
      }),
    ],
  },
} as const satisfies ChannelDescriptor;
