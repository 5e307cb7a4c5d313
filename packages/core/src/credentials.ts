import { z } from 'zod';

/** The channels that go through a provider, each with credentials of its own. */
export const PROVIDER_CHANNELS = ['apns', 'fcm', 'web-push'] as const;
export type ProviderChannelName = (typeof PROVIDER_CHANNELS)[number];

/** Where a provider is reached instead of its own address: a sandbox, or a proxy in the own network. */
const gateway = z.object({
  host: z.string().min(1),
  port: z.int().min(1).max(65_535),
  /** Certificate of the authority that signed the gateway's, PEM. */
  ca: z.string().optional(),
});
export type Gateway = z.infer<typeof gateway>;

const appleId = z.string().regex(/^[0-9A-Z]{10}$/, 'must be 10 characters, A to Z and 0 to 9');

/** A provider's secret as it is kept: checked when it was saved, sealed at rest. */
export const providerSecret = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('apns-token'),
    /** The .p8 file: a P-256 private key, PEM. */
    key: z.string(),
    keyId: appleId,
    teamId: appleId,
    gateway: gateway.optional(),
  }),
  z.object({
    kind: z.literal('apns-certificate'),
    /** PEM, the leaf first. */
    certificate: z.string(),
    /** PEM. */
    key: z.string(),
    gateway: gateway.optional(),
  }),
  z.object({
    kind: z.literal('fcm'),
    projectId: z.string().min(1),
    clientEmail: z.string().min(1),
    /** RSA private key, PEM. */
    privateKey: z.string(),
    privateKeyId: z.string().optional(),
    /** Where access tokens are got. */
    tokenUri: z.url(),
    gateway: gateway.optional(),
  }),
  z.object({
    kind: z.literal('web-push'),
    /** Uncompressed P-256 point and its scalar, base64url (RFC 8292). */
    publicKey: z.string(),
    privateKey: z.string(),
    /** Whom a push service may turn to: a mailto: or https: URL. */
    contact: z.string(),
  }),
]);
export type ProviderSecret = z.infer<typeof providerSecret>;
export type SecretOf<K extends ProviderSecret['kind']> = Extract<ProviderSecret, { kind: K }>;
