import { z } from 'zod';
import { isObject } from '../transport/jwt.ts';

const MONTH_SECONDS = 2_419_200;
const TOKEN = /^[\x21-\x7e]{1,4096}$/;
/** Google's text for a malformed token. Senders recognize by it that the error concerns one device. */
export const BAD_TOKEN = 'The registration token is not a valid FCM registration token';

const texts = z.array(z.string());
const textByName = z.record(z.string(), z.string());
const duration = z.string().regex(/^\d+(\.\d{1,9})?s$/, 'Illegal duration format');
/** A part of a colour, from 0 to 1. */
const share = z.number().min(0).max(1);
const analyticsLabel = z.string().regex(/^[a-zA-Z0-9-_.~%]{1,50}$/, 'Malformed analytics label');

const fcmOptions = z.strictObject({ analytics_label: analyticsLabel }).partial();
const apnsFcmOptions = z
  .strictObject({ analytics_label: analyticsLabel, image: z.string() })
  .partial();

/** Its fields are required (Firebase, "LightSettings"). */
const lightSettings = z.strictObject({
  color: z.strictObject({ red: share, green: share, blue: share, alpha: share }).partial(),
  light_on_duration: duration,
  light_off_duration: duration,
});

const androidNotification = z
  .strictObject({
    title: z.string(),
    body: z.string(),
    icon: z.string(),
    color: z.string().regex(/^#[0-9a-fA-F]{6}$/, 'Illegal color, must be #RRGGBB'),
    sound: z.string(),
    tag: z.string(),
    click_action: z.string(),
    body_loc_key: z.string(),
    body_loc_args: texts,
    title_loc_key: z.string(),
    title_loc_args: texts,
    channel_id: z.string(),
    ticker: z.string(),
    sticky: z.boolean(),
    event_time: z.iso.datetime({ offset: true, error: 'Illegal timestamp format' }),
    local_only: z.boolean(),
    notification_priority: z.enum([
      'PRIORITY_UNSPECIFIED',
      'PRIORITY_MIN',
      'PRIORITY_LOW',
      'PRIORITY_DEFAULT',
      'PRIORITY_HIGH',
      'PRIORITY_MAX',
    ]),
    default_sound: z.boolean(),
    default_vibrate_timings: z.boolean(),
    default_light_settings: z.boolean(),
    vibrate_timings: z.array(duration),
    visibility: z.enum(['VISIBILITY_UNSPECIFIED', 'PRIVATE', 'PUBLIC', 'SECRET']),
    notification_count: z.int32(),
    light_settings: lightSettings,
    image: z.string(),
    proxy: z.enum(['PROXY_UNSPECIFIED', 'ALLOW', 'DENY', 'IF_PRIORITY_LOWERED']),
    bypass_proxy_notification: z.boolean(),
  })
  .partial();

const android = z
  .strictObject({
    collapse_key: z.string(),
    priority: z.enum(['NORMAL', 'HIGH', 'normal', 'high']),
    ttl: duration.refine(
      (text) => Number.parseFloat(text) <= MONTH_SECONDS,
      'The TTL is over 4 weeks',
    ),
    restricted_package_name: z.string(),
    data: textByName,
    notification: androidNotification,
    fcm_options: fcmOptions,
    direct_boot_ok: z.boolean(),
    bandwidth_constrained_ok: z.boolean(),
    restricted_satellite_ok: z.boolean(),
  })
  .partial();

const notification = z
  .strictObject({ title: z.string(), body: z.string(), image: z.string() })
  .partial();

const apns = z
  .strictObject({
    headers: textByName,
    payload: z.custom<Record<string, unknown>>(isObject, 'expected an object'),
    fcm_options: apnsFcmOptions,
    live_activity_token: z.string(),
  })
  .partial();

/**
 * The body of a request (Firebase, "projects.messages" of the HTTP v1 API), by the names of its reference alone: Google
 * also takes them in camelCase.
 */
export const requestSchema = z.strictObject({
  validate_only: z.boolean().optional(),
  message: z.strictObject({
    token: z.string().regex(TOKEN, BAD_TOKEN),
    data: textByName.optional(),
    notification: notification.optional(),
    android: android.optional(),
    apns: apns.optional(),
    webpush: z.looseObject({}).optional(),
    fcm_options: fcmOptions.optional(),
  }),
});

/** A message whose fields are known and have their types. */
export type Message = z.infer<typeof requestSchema>['message'];
