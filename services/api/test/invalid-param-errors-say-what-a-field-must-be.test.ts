import { pushBody } from '@carillon/accept/schema';
import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import { expect, test } from '@jest/globals';
import type { z } from 'zod';
import { presenceRequest } from '../src/devices/schema.ts';
import {
  deviceAuthRequest,
  deviceTokenRequest,
  publicKeyQuery,
  registerRequest,
} from '../src/registration/schema.ts';
import { subscribeRequest, unsubscribeRequest } from '../src/topics/schema.ts';

const NOTIFICATION = {
  ...{ title: 'x', body: 'x', badge: 1, sound: { critical: 1, name: 'x', volume: 1 } },
  ...{ category: 'x', thread_id: 'x', interruption_level: 'active', loc_key: 'x' },
  ...{ loc_args: ['x'], title_loc_key: 'x', title_loc_args: ['x'] },
};
const PUSH = {
  ...{ to: 'x', tokens: ['x'], registration_ids: ['x'], data: {}, time_to_live: 1 },
  ...{ content_available: true, mutable_content: true, notification: NOTIFICATION },
  ...{
    schedule: 1,
    active_within: 60,
    collapse_key: 'x',
    priority: 'high',
    apns: {},
    fcm: {},
    web_push: {},
  },
};
const APPLE = {
  ...{ pushToken: 'ab'.repeat(32), pushEnvironment: 'production', pushBundle: 'x' },
  pushKind: 'voip',
};
const APP = 'a'.repeat(24);
const SUBSCRIPTION = { endpoint: 'x', key: 'x', auth: 'x' };

const SCHEMAS: [name: string, schema: z.ZodType, validBody: object][] = [
  ['push', pushBody, PUSH],
  ['presence', presenceRequest, { tokens: ['x'] }],
  ['subscribe', subscribeRequest, { token: 'x', topics: ['x'] }],
  ['unsubscribe', unsubscribeRequest, { token: 'x', topics: ['x'] }],
  ['auth', deviceAuthRequest, { token: 'x', auth: 'x' }],
  ['push token', deviceTokenRequest, { token: 'x', auth: 'x', ...APPLE }],
  ['electron', registerRequest, { platform: 'electron', appId: APP }],
  ['android', registerRequest, { platform: 'android', appId: APP, fcmToken: 'x' }],
  ['ios', registerRequest, { platform: 'ios', appId: APP, app: 'x', ...APPLE, expires_in: 86_400 }],
  ['web', registerRequest, { platform: 'web', appId: APP, subscription: SUBSCRIPTION }],
  ['public key', publicKeyQuery, { appId: APP, app: 'x' }],
];

const INVALID_VALUES: unknown[] = [
  ...[undefined, null, true, 0, 1, -1, 1.5, 1e15, 1e308, '', 'x', '1', 'ä', 'x'.repeat(9_999)],
  ...[[], [null], [1], [''], ['x', 1], [[]], ['*', 'x'], Array(2_000).fill('x'), [{}]],
  ...[{}, { x: 1 }, { critical: 2 }, { volume: 2 }, { volume: '1' }, { name: 1 }, { endpoint: 1 }],
  ...[{ endpoint: 'x', key: 'x', auth: 'x' }],
];

const VALIDATOR_TERMS =
  /invalid|expected|received|option|too (big|small)|undefined|null\b|NaN|union|input|regex|pattern|\bint\b|[<>]=?|object Object|code/i;
const SENTENCE = /^The parameter "[\w.[\]]+" (is missing; it )?(must|needs) [^;]+\.$/;

/** Generates bodies in which one field after the other has each of the invalid values. */
function* generateInvalidBodies(validBody: object): Generator<[path: string, body: object]> {
  for (const [name, value] of Object.entries(validBody)) {
    for (const invalidValue of INVALID_VALUES) yield [name, { ...validBody, [name]: invalidValue }];
    if (typeof value !== 'object' || Array.isArray(value)) continue;
    for (const [path, innerBody] of generateInvalidBodies(value))
      yield [`${name}.${path}`, { ...validBody, [name]: innerBody }];
  }
}

function validationErrorFor(schema: z.ZodType, body: object): ApiError | undefined {
  try {
    validate(schema, body);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  return undefined;
}

test.each(SCHEMAS)(
  '%s: every rejected value of every field gets an error that names the field and what it must be',
  (_name, schema, validBody) => {
    let rejectedCount = 0;
    for (const [path, body] of generateInvalidBodies(validBody)) {
      const validationError = validationErrorFor(schema, body);
      if (validationError === undefined) continue;
      rejectedCount += 1;
      expect({ path, text: validationError.message }).toEqual({
        path,
        text: expect.stringMatching(SENTENCE),
      });
      expect(validationError.message).not.toMatch(VALIDATOR_TERMS);
      expect(validationError.message).toContain(`"${validationError.parameter}"`);
    }
    expect(rejectedCount).toBeGreaterThan(0);
  },
);

const TTL = 'time_to_live" must be an integer from 0 to 31536000.';

test.each<[z.ZodType, object, string]>([
  [pushBody, { time_to_live: '1' }, TTL],
  [pushBody, { time_to_live: 1.5 }, TTL],
  [pushBody, { active_within: 59 }, 'active_within" must be an integer from 60 to 315360000.'],
  [pushBody, { to: 1 }, 'to" must be a string or an array of strings.'],
  [pushBody, { notification: { body: 1 } }, 'notification.body" must be a string.'],
  [pushBody, { notification: { loc_args: [1] } }, 'notification.loc_args[0]" must be a string.'],
  [
    pushBody,
    { notification: { sound: { volume: 2 } } },
    'notification.sound.volume" must be a number from 0 to 1.',
  ],
  [subscribeRequest, { token: undefined }, 'token" is missing; it must be a string.'],
  [unsubscribeRequest, { topics: ['*', 'x'] }, 'topics" must be ["*"] alone or names of topics.'],
])('the error of case %# is exact', (schema, fields, text) => {
  const valid = schema === pushBody ? PUSH : { token: 'x', topics: ['x'] };
  expect(validationErrorFor(schema, { ...valid, ...fields })?.message).toBe(
    `The parameter "${text}`,
  );
});
