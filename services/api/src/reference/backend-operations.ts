import { DEVICE_TOKEN, TOPIC_NAME } from '@carillon/core/limits';
import { z } from 'zod';
import { deviceBody, presenceBody, presenceRequest } from '../devices/schema.ts';
import { acceptedBody, pushBody, statusBody } from '../push/schema.ts';
import {
  subscribeRequest,
  subscribersBody,
  topicsBody,
  unsubscribeRequest,
} from '../topics/schema.ts';
import type { Operation, Parameter } from './operation.ts';

const TOKEN = 'a6345d0278adc55d3474f5';
const PUSH = '5a4f9e1b2c3d4e5f60718293';
const SUCCESS = z.looseObject({ success: z.literal(true) }).meta({ id: 'Success' });
const DONE = { schema: SUCCESS, example: { success: true } };
const PAYLOAD = { message: 'Hello World!' };
const SENT_AT = 1_795_250_000;
const EXPIRES_AT = 1_797_842_000;

const pushId: Parameter = {
  name: 'push_id',
  in: 'path',
  required: true,
  schema: z.string(),
  description: 'The id that sending has answered.',
  example: PUSH,
};

/** Specification 4.1 to 4.3. */
const pushes: Operation[] = [
  {
    id: 'sendPush',
    tag: 'Pushes',
    method: 'post',
    path: '/push',
    summary: 'Send a push',
    description:
      'Sends to one or many devices, or to topics. Once this answers 200 the push is kept for good. With an `Idempotency-Key` a repeated request gets the answer of the first one.',
    calledBy: 'backend',
    parameters: [
      {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        schema: z.string().regex(/^[\x20-\x7e]{1,255}$/),
        description: 'Your own name for this request, remembered for 24 hours.',
        example: 'order-4711-shipped',
      },
    ],
    request: {
      schema: pushBody,
      example: { to: TOKEN, data: PAYLOAD, notification: { body: 'Hello World!', badge: 1 } },
    },
    response: {
      schema: acceptedBody,
      example: { success: true, id: PUSH, info: { devices: 1, failed: [] } },
    },
    errors: ['NO_RECIPIENTS', 'NO_APNS_AUTH', 'PAYLOAD_LIMIT_EXCEEDED'],
  },
  {
    id: 'getPush',
    tag: 'Pushes',
    method: 'get',
    path: '/pushes/{push_id}',
    summary: 'Status of a push',
    description:
      'Which devices have not received it yet. Only platforms that acknowledge over MQTT are tracked (Android, Electron, Python).',
    calledBy: 'backend',
    parameters: [pushId],
    response: {
      schema: statusBody,
      example: {
        push: {
          date: SENT_AT,
          payload: PAYLOAD,
          expiration: EXPIRES_AT,
          pending_devices: [TOKEN],
        },
      },
    },
    errors: ['INVALID_PUSH_ID', 'PUSH_SCHEDULED'],
  },
  {
    id: 'deletePush',
    tag: 'Pushes',
    method: 'delete',
    path: '/pushes/{push_id}',
    summary: 'Delete a push',
    description: 'Nothing of it is sent any more. Scheduled pushes can be deleted too.',
    calledBy: 'backend',
    parameters: [pushId],
    response: DONE,
    errors: ['INVALID_PUSH_ID'],
  },
];

/** Specification 4.4 and 4.5. */
const devices: Operation[] = [
  {
    id: 'getDevice',
    tag: 'Devices',
    method: 'get',
    path: '/devices/{device_token}',
    summary: 'Info of a device',
    description: 'Its platform, presence, subscriptions and the pushes it has yet to receive.',
    calledBy: 'backend',
    parameters: [
      {
        name: 'device_token',
        in: 'path',
        required: true,
        schema: z.string().regex(DEVICE_TOKEN),
        description: 'The token that registering has answered.',
        example: TOKEN,
      },
    ],
    response: {
      schema: deviceBody,
      example: {
        device: { date: SENT_AT, platform: 'android' },
        subscriptions: ['news', 'weather'],
        presence: { online: true, last_active: { date: SENT_AT, seconds_ago: 215 } },
        pending_notifications: [
          { id: PUSH, date: SENT_AT, payload: PAYLOAD, expiration: EXPIRES_AT },
        ],
      },
    },
    errors: ['INVALID_DEVICE_TOKEN', 'APP_MISMATCH'],
  },
  {
    id: 'getPresence',
    tag: 'Devices',
    method: 'post',
    path: '/devices/presence',
    summary: 'Presence of many devices',
    description: 'Unknown tokens are left out; only when none is known it is an error.',
    calledBy: 'backend',
    request: { schema: presenceRequest, example: { tokens: [TOKEN] } },
    response: {
      schema: presenceBody,
      example: { presence: [{ id: TOKEN, online: true, last_active: SENT_AT }] },
    },
    errors: ['NO_RESULTS'],
  },
];

/** Specification 4.6 to 4.9. */
const topics: Operation[] = [
  {
    id: 'subscribe',
    tag: 'Topics',
    method: 'post',
    path: '/topics/subscribe',
    summary: 'Subscribe a device to topics',
    description: 'Topics need no set-up. Subscribing twice is harmless.',
    calledBy: 'backend',
    request: { schema: subscribeRequest, example: { token: TOKEN, topics: ['news'] } },
    response: DONE,
    errors: ['INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'unsubscribe',
    tag: 'Topics',
    method: 'post',
    path: '/topics/unsubscribe',
    summary: 'Unsubscribe a device from topics',
    description: '`["*"]` drops all subscriptions of the device.',
    calledBy: 'backend',
    request: { schema: unsubscribeRequest, example: { token: TOKEN, topics: ['news'] } },
    response: DONE,
    errors: ['INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'listTopics',
    tag: 'Topics',
    method: 'get',
    path: '/topics',
    summary: 'List topics',
    description: "The app's topics that have subscribers.",
    calledBy: 'backend',
    response: {
      schema: topicsBody,
      example: { topics: [{ name: 'news', subscribers: 5_000 }] },
    },
    errors: [],
  },
  {
    id: 'listSubscribers',
    tag: 'Topics',
    method: 'get',
    path: '/topics/{topic}',
    summary: 'Subscribers of a topic',
    description: 'At most 1,000 a page; `pagination` leads to the next one.',
    calledBy: 'backend',
    parameters: [
      {
        name: 'topic',
        in: 'path',
        required: true,
        schema: z.string().regex(TOPIC_NAME),
        description: 'Name of the topic, case-sensitive.',
        example: 'news',
      },
      {
        name: 'page',
        in: 'query',
        required: false,
        schema: z.int().min(1).max(1_000_000),
        description: 'Number of the page, from 1.',
        example: 2,
      },
    ],
    response: {
      schema: subscribersBody,
      example: {
        subscribers: [TOKEN],
        pagination: '/topics/news?api_key=SECRET_API_KEY&page=2',
      },
    },
    errors: [],
  },
];

/** What backends call. */
export const BACKEND_OPERATIONS: readonly Operation[] = [...pushes, ...devices, ...topics];
