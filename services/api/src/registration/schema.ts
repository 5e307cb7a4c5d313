import { createPublicKey } from 'node:crypto';
import { z } from 'zod';

const P256_POINT_BYTES = 65;
const AUTH_SECRET_BYTES = 16;
const ADDRESS_CHARACTERS = 4_096;

const appId = z
  .string()
  .regex(/^[0-9a-f]{24}$/, 'must be 24 hexadecimal characters')
  .meta({ description: "The app's id." });
const token = z.string().meta({ description: "The device's token." });
const auth = z.string().meta({ description: "The device's auth key." });
const sdk = z.unknown().optional().meta({ description: "The SDK's version; ignored." });

/** APNs device tokens have no fixed length (Apple, "Registering your app with APNs"). */
const apnsToken = z
  .string()
  .regex(/^(?:[0-9a-fA-F]{2}){32,100}$/, 'must be hexadecimal')
  .transform((hex) => hex.toLowerCase());

const appleAddress = {
  pushToken: apnsToken.nullish().meta({ description: 'APNs device token, hexadecimal.' }),
  pushEnvironment: z
    .enum(['development', 'production'])
    .optional()
    .meta({ description: 'Required with a pushToken.' }),
  pushBundle: z
    .string()
    .regex(/^[0-9A-Za-z.-]{1,155}$/, 'must be a bundle id')
    .optional()
    .meta({ description: 'Bundle id of the app; required with a pushToken.' }),
};

const hasAllOfApple = (value: {
  pushToken?: string | null | undefined;
  pushEnvironment?: string | undefined;
  pushBundle?: string | undefined;
}) =>
  typeof value.pushToken !== 'string' ||
  (value.pushEnvironment !== undefined && value.pushBundle !== undefined);
const APPLE_FAULT = { message: 'needs a pushEnvironment and a pushBundle', path: ['pushToken'] };

/** A browser's subscription (Push API, PushSubscriptionJSON, with the key's name as the SDK has it). */
const subscription = z.object({
  endpoint: z.string().max(2_048).meta({ description: "The push service's URL." }),
  key: z
    .string()
    .max(200)
    .refine(isP256Point, 'must be a point on P-256')
    .transform(toBase64Url)
    .meta({ description: 'The key p256dh, base64.' }),
  auth: z
    .string()
    .max(100)
    .refine((text) => Buffer.from(text, 'base64').length === AUTH_SECRET_BYTES, {
      message: 'must be 16 bytes',
    })
    .transform(toBase64Url)
    .meta({ description: 'The secret auth, base64.' }),
});

const byName = z.string().min(1).max(255).optional();

/** Compatibility page, "Devices, HTTP": POST /register, by platform. */
export const registerRequest = z
  .discriminatedUnion(
    'platform',
    [
      z.object({
        platform: z.enum(['electron', 'python']),
        appId,
        sdk,
      }),
      z.object({
        platform: z.literal('android'),
        appId,
        sdk,
        fcmToken: z
          .string()
          .regex(/^[\x21-\x7e]+$/, 'must be an FCM registration token')
          .max(ADDRESS_CHARACTERS)
          .optional()
          .meta({ description: 'For the fallback over FCM.' }),
      }),
      z
        .object({
          platform: z.literal('ios'),
          appId: appId.optional(),
          app: byName.meta({ description: 'Bundle id, in place of appId.' }),
          sdk,
          ...appleAddress,
        })
        .refine(hasAllOfApple, APPLE_FAULT),
      z.object({
        platform: z.literal('web'),
        appId: appId.optional(),
        app: byName.meta({ description: "The page's host name, in place of appId." }),
        sdk,
        subscription,
      }),
    ],
    'must be one of electron, python, android, ios, web',
  )
  .meta({ id: 'Register' });
export type RegisterRequest = z.infer<typeof registerRequest>;

/** GET /web-push/public-key. */
export const publicKeyQuery = z.object({
  appId: appId.optional(),
  app: byName.meta({ description: "The page's host name, in place of appId." }),
});

/** The answer to GET /web-push/public-key. */
export const publicKeyBody = z
  .looseObject({
    publicKey: z.string().meta({ description: 'A point on P-256, base64url.' }),
  })
  .meta({ id: 'PublicKey' });

/** The answer to POST /register. */
export const registeredBody = z.looseObject({ token, auth }).meta({ id: 'Registered' });

/** POST /devices/auth. */
export const deviceAuthRequest = z.object({ token, auth, sdk }).meta({ id: 'DeviceAuth' });

/** POST /devices/token. */
export const deviceTokenRequest = z
  .object({ token, auth, ...appleAddress })
  .refine(hasAllOfApple, APPLE_FAULT)
  .meta({ id: 'DeviceToken' });

/** Whether a text is an uncompressed point that lies on the curve (RFC 8291, 3.1). */
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
