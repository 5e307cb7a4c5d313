import { createPublicKey } from 'node:crypto';
import { PUSH_KINDS, type PushKind } from '@carillon/core/channels/apns';
import { LIMITS } from '@carillon/core/limits';
import { integer } from '@carillon/core/validate';
import { z } from 'zod';

const P256_POINT_BYTES = 65;
const AUTH_SECRET_BYTES = 16;
/** Maximum length of a provider token. */
const ADDRESS_CHARACTERS = 4_096;

const appId = z
  .string()
  .regex(/^[0-9a-f]{24}$/, 'must be 24 hexadecimal characters')
  .meta({ description: 'Identifier of the app.' });
const token = z.string().meta({ description: 'Token of the device.' });
const auth = z.string().meta({ description: 'Auth key of the device.' });
const sdk = z.unknown().optional().meta({ description: 'Version of the SDK. Ignored.' });

/**
 * APNs device token. Its length is not fixed (Apple, "Registering your app with APNs"). Pushy's iOS SDK sends an empty one to
 * unregister.
 */
const apnsToken = z
  .string()
  .regex(/^(?:(?:[0-9a-fA-F]{2}){32,100})?$/, 'must be hexadecimal')
  .transform((hex) => (hex === '' ? null : hex.toLowerCase()));

const fcmToken = z
  .string()
  .regex(/^[\x21-\x7e]+$/, 'must be an FCM registration token')
  .max(ADDRESS_CHARACTERS);

const appleAddressFields = {
  pushToken: apnsToken
    .nullish()
    .meta({ description: 'APNs device token in hexadecimal. Null or empty: none.' }),
  pushEnvironment: z
    .enum(['development', 'production'])
    .optional()
    .meta({ description: 'APNs environment of the token. Required if `pushToken` is set.' }),
  pushBundle: z
    .string()
    .regex(/^[0-9A-Za-z.-]{1,155}$/, 'must be a bundle id')
    .optional()
    .meta({ description: 'Bundle ID of the app. Required if `pushToken` is set.' }),
};
const pushKind = z.enum(PUSH_KINDS).optional();

/** Fields of the provider address of a phone. */
export interface PhoneAddress {
  pushToken?: string | null | undefined;
  pushEnvironment?: 'development' | 'production' | undefined;
  pushBundle?: string | undefined;
  pushKind?: PushKind | undefined;
  fcmToken?: string | undefined;
}

const hasCompleteAppleAddress = (value: PhoneAddress) =>
  typeof value.pushToken !== 'string' ||
  (value.pushEnvironment !== undefined && value.pushBundle !== undefined);
const INCOMPLETE_APPLE_ADDRESS = {
  message: 'needs a pushEnvironment and a pushBundle',
  path: ['pushToken'],
};

const hasTokenOfKind = ({ pushToken, pushKind: kind = 'alert' }: PhoneAddress) =>
  kind === 'alert' || typeof pushToken === 'string';
const KIND_WITHOUT_TOKEN = { message: 'needs a pushToken', path: ['pushKind'] };

const hasOneAddress = ({ pushToken, fcmToken: other }: PhoneAddress) =>
  typeof pushToken !== 'string' || other === undefined;
const TWO_ADDRESSES = {
  message: 'must not be set together with a pushToken',
  path: ['fcmToken'],
};

/** A browser's subscription (Push API, PushSubscriptionJSON, with `p256dh` named `key` as in the SDK). */
const subscription = z
  .object({
    endpoint: z.string().max(2_048).meta({ description: 'URL of the push service.' }),
    key: z
      .string()
      .max(200)
      .refine(isP256Point, 'must be a point on P-256')
      .transform(toBase64Url)
      .meta({ description: 'Public key of the subscription (`p256dh`), base64-encoded.' }),
    auth: z
      .string()
      .max(100)
      .refine((text) => Buffer.from(text, 'base64').length === AUTH_SECRET_BYTES, {
        message: 'must be 16 bytes',
      })
      .transform(toBase64Url)
      .meta({ description: 'Authentication secret of the subscription (`auth`), base64-encoded.' }),
  })
  .meta({ id: 'WebPushSubscription' });

const appName = z.string().min(1).max(255).optional();

/** Refused if it is not well-formed: its hash is of UTF-8, where all lone surrogates are the same. */
const deviceId = z
  .string()
  .min(16)
  .max(128)
  .refine((text) => text.isWellFormed(), 'must be well-formed Unicode');

/** Fields by which an installation shows that it is a device which is registered already. */
const proofFields = {
  token: z.string().optional().meta({
    description: 'Token of the device that the installation is, with its `auth`.',
  }),
  auth: z.string().optional().meta({
    description: 'Auth key of that device. If the two are not valid, they are ignored.',
  }),
  deviceId: deviceId.optional().meta({
    description:
      'Secret of the installation that outlives the app, for instance a random text in the keychain, or `ANDROID_ID`. Whoever knows it is the device: it finds the device again, and gets its credentials. Only a hash is stored.',
  }),
};

/**
 * Request body of POST /register by platform (compatibility page, "Devices, HTTP"). Each alternative has an id,
 * because client generators would otherwise generate the same name twice.
 */
export const registerRequest = z
  .discriminatedUnion(
    'platform',
    [
      z
        .object({
          platform: z.enum(['electron', 'python']),
          appId,
          sdk,
          ...proofFields,
        })
        .meta({ id: 'RegisterDesktop' }),
      z
        .object({
          platform: z.literal('android'),
          appId,
          sdk,
          fcmToken: fcmToken.optional().meta({
            description:
              'FCM registration token. A device that has not connected over MQTT since it registered is reached by it alone; for others it is the fallback.',
          }),
          ...proofFields,
        })
        .meta({ id: 'RegisterAndroid' }),
      z
        .object({
          platform: z.literal('ios'),
          appId: appId.optional(),
          app: appName.meta({ description: 'Bundle ID of the app, instead of `appId`.' }),
          sdk,
          ...appleAddressFields,
          pushKind: pushKind.meta({
            description:
              'Kind of notifications that `pushToken` is for. It decides their push type and topic. Defaults to `alert`.',
          }),
          fcmToken: fcmToken.optional().meta({
            description: 'FCM registration token, instead of an APNs device token.',
          }),
          expires_in: integer(1, LIMITS.deviceLifetimeSeconds).optional().meta({
            description:
              'Seconds after which the device is deleted. Defaults to the end that it has, and to none for a new device.',
          }),
          ...proofFields,
        })
        .refine(hasCompleteAppleAddress, INCOMPLETE_APPLE_ADDRESS)
        .refine(hasOneAddress, TWO_ADDRESSES)
        .refine(hasTokenOfKind, KIND_WITHOUT_TOKEN)
        .meta({ id: 'RegisterIos' }),
      z
        .object({
          platform: z.literal('web'),
          appId: appId.optional(),
          app: appName.meta({ description: 'Host name of the page, instead of `appId`.' }),
          sdk,
          subscription,
          ...proofFields,
        })
        .meta({ id: 'RegisterWeb' }),
    ],
    'must be one of electron, python, android, ios, web',
  )
  .meta({ id: 'Register' });
export type RegisterRequest = z.infer<typeof registerRequest>;

/** Query of GET /web-push/public-key. */
export const publicKeyQuery = z.object({
  appId: appId.optional(),
  app: appName.meta({ description: 'Host name of the page, instead of `appId`.' }),
});

/** Response of GET /web-push/public-key. */
export const publicKeyResponse = z
  .looseObject({
    publicKey: z.string().meta({ description: 'Public key: a point on P-256, base64url-encoded.' }),
  })
  .meta({ id: 'PublicKey' });

/** Response of POST /register. */
export const registeredResponse = z.looseObject({ token, auth }).meta({ id: 'Registered' });

/** Request body of POST /devices/auth. */
export const deviceAuthRequest = z.object({ token, auth, sdk }).meta({ id: 'DeviceAuth' });

/** Request body of POST /devices/token. */
export const deviceTokenRequest = z
  .object({
    token,
    auth,
    ...appleAddressFields,
    pushKind: pushKind.meta({
      description: 'Kind of notifications that `pushToken` is for. Defaults to that of the device.',
    }),
    fcmToken: fcmToken.optional().meta({ description: 'FCM registration token.' }),
  })
  .refine(hasCompleteAppleAddress, INCOMPLETE_APPLE_ADDRESS)
  .refine(hasOneAddress, TWO_ADDRESSES)
  .refine(hasTokenOfKind, KIND_WITHOUT_TOKEN)
  .meta({ id: 'DeviceToken' });

/** Checks that a text is an uncompressed point on the curve (RFC 8291, 3.1). */
function isP256Point(text: string): boolean {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length !== P256_POINT_BYTES || bytes[0] !== 4) return false;
  const x = bytes.subarray(1, 33).toString('base64url');
  const y = bytes.subarray(33).toString('base64url');
  try {
    createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
    return true;
  } catch {
    return false;
  }
}

function toBase64Url(text: string): string {
  return Buffer.from(text, 'base64').toString('base64url');
}
