import { pushBody } from '@carillon/accept/schema';
import { DEVICE_TOKEN, LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import { z } from 'zod';
import { deviceResponse, presenceRequest, presenceResponse } from '../devices/schema.ts';
import { acceptedResponse, pushStatusResponse } from '../push/schema.ts';
import {
  subscribeRequest,
  subscribersResponse,
  topicsResponse,
  unsubscribeRequest,
} from '../topics/schema.ts';
import type { Operation, Parameter } from './operation.ts';
import { SUCCESS_RESPONSE } from './success.ts';
import { WEBHOOK_OPERATIONS } from './webhook-operations.ts';

const TOKEN = 'a6345d0278adc55d3474f5';
const PUSH_ID = '5a4f9e1b2c3d4e5f60718293';
const PAYLOAD = { message: 'Hello World!' };
const SENT_AT = 1_795_250_000;
const EXPIRES_AT = 1_797_842_000;

const pushId: Parameter = {
  name: 'push_id',
  in: 'path',
  required: true,
  schema: z.string(),
  description: 'Identifier of the push, as returned by POST /push.',
  example: PUSH_ID,
};

/** Endpoints of specification 4.1 to 4.3. */
const pushes: Operation[] = [
  {
    id: 'sendPush',
    tag: 'Pushes',
    method: 'post',
    path: '/push',
    summary: 'Send a push',
    description:
      'Sends a push to devices, topics, or both. When the endpoint returns 200, the push is stored durably. To retry a request safely, send it with the same `Idempotency-Key` and the same JSON, in any order of keys: a repeated request returns the response of the first one and sends nothing again.',
    calledBy: 'backend',
    parameters: [
      {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        schema: z.string().regex(/^[\x20-\x7e]{1,255}$/),
        description: 'Unique identifier of this request, chosen by you. Kept for 24 hours.',
        example: 'order-4711-shipped',
      },
    ],
    request: {
      schema: pushBody,
      example: { to: TOKEN, data: PAYLOAD, notification: { body: 'Hello World!', badge: 1 } },
    },
    response: {
      schema: acceptedResponse,
      example: { success: true, id: PUSH_ID, info: { devices: 1, failed: [] } },
    },
    errors: ['NO_RECIPIENTS', 'NO_APNS_AUTH', 'PAYLOAD_LIMIT_EXCEEDED'],
  },
  {
    id: 'getPush',
    tag: 'Pushes',
    method: 'get',
    path: '/pushes/{push_id}',
    summary: 'Get the status of a push',
    description:
      'Returns a push and the devices that have not received it yet. Receipt is tracked only on platforms that acknowledge pushes over MQTT: Android, Electron, and Python.',
    calledBy: 'backend',
    parameters: [pushId],
    response: {
      schema: pushStatusResponse,
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
    description: 'Deletes a push and stops its delivery. Scheduled pushes can be deleted too.',
    calledBy: 'backend',
    parameters: [pushId],
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_PUSH_ID'],
  },
];

const deviceToken: Parameter = {
  name: 'device_token',
  in: 'path',
  required: true,
  schema: z.string().regex(DEVICE_TOKEN),
  description: 'Token of the device, as returned by POST /register.',
  example: TOKEN,
};

/** Endpoints of specification 4.4 and 4.5. */
const devices: Operation[] = [
  {
    id: 'getDevice',
    tag: 'Devices',
    method: 'get',
    path: '/devices/{device_token}',
    summary: 'Get a device',
    description: 'Returns the platform, presence, subscriptions, and pending pushes of a device.',
    calledBy: 'backend',
    parameters: [deviceToken],
    response: {
      schema: deviceResponse,
      example: {
        device: { date: SENT_AT, platform: 'android' },
        subscriptions: ['news', 'weather'],
        presence: { online: true, last_active: { date: SENT_AT, seconds_ago: 215 } },
        pending_notifications: [
          { id: PUSH_ID, date: SENT_AT, payload: PAYLOAD, expiration: EXPIRES_AT },
        ],
      },
    },
    errors: ['INVALID_DEVICE_TOKEN', 'APP_MISMATCH'],
  },
  {
    id: 'deleteDevice',
    tag: 'Devices',
    method: 'delete',
    path: '/devices/{device_token}',
    summary: 'Delete a device',
    description:
      'Disconnects a device, revokes its credentials, and removes its subscriptions. Pending deliveries to the device end as `gone`.',
    calledBy: 'backend',
    parameters: [deviceToken],
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'getPresence',
    tag: 'Devices',
    method: 'post',
    path: '/devices/presence',
    summary: 'Get the presence of devices',
    description:
      'Returns whether devices are online, and when they were last active. Unknown tokens are omitted. If no token is known, the endpoint returns an error.',
    calledBy: 'backend',
    request: { schema: presenceRequest, example: { tokens: [TOKEN] } },
    response: {
      schema: presenceResponse,
      example: { presence: [{ id: TOKEN, online: true, last_active: SENT_AT }] },
    },
    errors: ['NO_RESULTS'],
  },
];

/** Endpoints of specification 4.6 to 4.9. */
const topics: Operation[] = [
  {
    id: 'subscribe',
    tag: 'Topics',
    method: 'post',
    path: '/topics/subscribe',
    summary: 'Subscribe a device to topics',
    description: `Subscribes a device to one or more topics. A topic is created by its first subscription. Topics that the device is already subscribed to are left unchanged. A device can subscribe to at most ${LIMITS.topicsPerDevice.toLocaleString('en')} topics.`,
    calledBy: 'backend',
    request: { schema: subscribeRequest, example: { token: TOKEN, topics: ['news'] } },
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'unsubscribe',
    tag: 'Topics',
    method: 'post',
    path: '/topics/unsubscribe',
    summary: 'Unsubscribe a device from topics',
    description:
      'Unsubscribes a device from one or more topics. Send `["*"]` to remove all subscriptions of the device.',
    calledBy: 'backend',
    request: { schema: unsubscribeRequest, example: { token: TOKEN, topics: ['news'] } },
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'listTopics',
    tag: 'Topics',
    method: 'get',
    path: '/topics',
    summary: 'List topics',
    description: 'Returns the topics of the app that have subscribers.',
    calledBy: 'backend',
    response: {
      schema: topicsResponse,
      example: { topics: [{ name: 'news', subscribers: 5_000 }] },
    },
    errors: [],
  },
  {
    id: 'listSubscribers',
    tag: 'Topics',
    method: 'get',
    path: '/topics/{topic}',
    summary: 'List the subscribers of a topic',
    description:
      'Returns the subscribers of a topic, up to 1,000 per page. Follow `pagination` to get the next page.',
    calledBy: 'backend',
    parameters: [
      {
        name: 'topic',
        in: 'path',
        required: true,
        schema: z.string().regex(TOPIC_NAME),
        description: 'Name of the topic. Case-sensitive.',
        example: 'news',
      },
      {
        name: 'page',
        in: 'query',
        required: false,
        schema: z.int().min(1).max(1_000_000),
        description: 'Number of the page, starting at 1.',
        example: 2,
      },
    ],
    response: {
      schema: subscribersResponse,
      example: {
        subscribers: [TOKEN],
        pagination: '/topics/news?api_key=SECRET_API_KEY&page=2',
      },
    },
    errors: [],
  },
];

/** Endpoints that backends call. */
export const BACKEND_OPERATIONS: readonly Operation[] = [
  ...pushes,
  ...devices,
  ...topics,
  ...WEBHOOK_OPERATIONS,
];
