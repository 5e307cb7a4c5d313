import { REPORTED_STATES } from '@carillon/core/batch';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import { REPORTED_OUTCOMES } from '@carillon/core/outcomes';
import { z } from 'zod';
import {
  devicePushesResponse,
  outcomesResponse,
  pushListResponse,
  recipientResponse,
  recipientsResponse,
} from '../outcomes/schema.ts';
import type { Operation, Parameter } from './operation.ts';

const TOKEN = 'a6345d0278adc55d3474f5';
const PUSH_ID = '5a4f9e1b2c3d4e5f60718293';
const SENT_AT = 1_795_250_000;
const PUSH = { id: PUSH_ID, state: 'finished', date: SENT_AT, expiration: 1_797_842_000 } as const;
const RECIPIENT = {
  token: TOKEN,
  outcome: 'delivered',
  channel: 'mqtt',
  milliseconds: 42,
} as const;
const TRIED_RECIPIENT = {
  ...RECIPIENT,
  attempts: [{ channel: 'mqtt', outcome: 'delivered' }],
} as const;

const deviceToken: Parameter = {
  name: 'device_token',
  in: 'path',
  required: true,
  schema: z.string().regex(DEVICE_TOKEN),
  description: 'Token of the device.',
  example: TOKEN,
};

const pushId: Parameter = {
  name: 'push_id',
  in: 'path',
  required: true,
  schema: z.string(),
  description: 'Identifier of the push, as returned by POST /push.',
  example: PUSH_ID,
};

function pageParameter(example: string): Parameter {
  return {
    name: 'page',
    in: 'query',
    required: false,
    schema: z.string(),
    description: 'Value of `next_page` in the previous response. Absent for the first page.',
    example,
  };
}

function timeParameter(name: 'from' | 'to', description: string): Parameter {
  const schema = z.int().min(0);
  return { name, in: 'query', required: false, schema, description, example: SENT_AT };
}

/** Endpoints that report the outcomes of pushes and their recipients. */
export const OUTCOME_OPERATIONS: readonly Operation[] = [
  {
    id: 'listPushes',
    tag: 'Outcomes',
    method: 'get',
    path: '/pushes',
    summary: 'List pushes',
    description:
      'Returns the pushes of the app, the newest first, up to 100 per page, as long as they are stored. A scheduled push counts with its due time. A page can be empty and still have a `next_page`.',
    calledBy: 'backend',
    parameters: [
      timeParameter('from', 'Only pushes from this time on, as a Unix timestamp in seconds.'),
      timeParameter('to', 'Only pushes before this time, as a Unix timestamp in seconds.'),
      {
        name: 'state',
        in: 'query',
        required: false,
        schema: z.enum(REPORTED_STATES),
        description: 'Only pushes in this state.',
        example: 'finished',
      },
      pageParameter(PUSH_ID),
    ],
    response: {
      schema: pushListResponse,
      example: { pushes: [{ ...PUSH, devices: 2, outcomes: { delivered: 2 } }] },
    },
    errors: [],
  },
  {
    id: 'getOutcomes',
    tag: 'Outcomes',
    method: 'get',
    path: '/pushes/{push_id}/outcomes',
    summary: 'Count the outcomes of a push',
    description:
      'Returns the recipients of a push by outcome, channel, and reason, and the time to their receipts. Unlike the status, outcomes can be read after the push has expired or was deleted, until it is removed from storage.',
    calledBy: 'backend',
    parameters: [pushId],
    response: {
      schema: outcomesResponse,
      example: {
        push: { ...PUSH, devices: 3 },
        resolved: true,
        recipients: 3,
        outcomes: { delivered: 2, failed: 1 },
        channels: { mqtt: { delivered: 2 }, apns: { failed: 1 } },
        reasons: { 'rejected-by-provider': 1 },
        latency: { count: 2, p50: 42, p90: 61, p99: 61, max: 61 },
        first_receipt: SENT_AT,
        last_receipt: SENT_AT,
      },
    },
    errors: ['INVALID_PUSH_ID'],
  },
  {
    id: 'listRecipients',
    tag: 'Outcomes',
    method: 'get',
    path: '/pushes/{push_id}/recipients',
    summary: 'List the recipients of a push',
    description:
      'Returns the recipients of a push with their outcomes, up to 1,000 per page. Each recipient is in one page, also while the push is being delivered. A page can have fewer recipients, even none, and still have a `next_page`.',
    calledBy: 'backend',
    parameters: [
      pushId,
      {
        name: 'outcome',
        in: 'query',
        required: false,
        schema: z.enum(REPORTED_OUTCOMES),
        description: 'Only recipients with this outcome.',
        example: 'failed',
      },
      pageParameter('LTAwMDAwMC4xMDAw'),
    ],
    response: { schema: recipientsResponse, example: { recipients: [RECIPIENT] } },
    errors: ['INVALID_PUSH_ID'],
  },
  {
    id: 'getRecipient',
    tag: 'Outcomes',
    method: 'get',
    path: '/pushes/{push_id}/recipients/{device_token}',
    summary: 'Get one recipient of a push',
    description:
      'Returns the outcome of a push for one device, and the attempts over each channel, as far as they are stored.',
    calledBy: 'backend',
    parameters: [pushId, deviceToken],
    response: { schema: recipientResponse, example: { recipient: TRIED_RECIPIENT } },
    errors: ['INVALID_PUSH_ID', 'INVALID_DEVICE_TOKEN'],
  },
  {
    id: 'listDevicePushes',
    tag: 'Outcomes',
    method: 'get',
    path: '/devices/{device_token}/pushes',
    summary: 'List the pushes to a device',
    description:
      'Returns the pushes to a device with its outcome, the newest first, up to 100 per page, as long as they are stored. A push to a topic appears once the subscribers are resolved. A page can have fewer pushes, even none, and still have a `next_page`.',
    calledBy: 'backend',
    parameters: [deviceToken, pageParameter(PUSH_ID)],
    response: {
      schema: devicePushesResponse,
      example: { pushes: [{ ...PUSH, devices: 1, recipient: TRIED_RECIPIENT }] },
    },
    errors: ['INVALID_DEVICE_TOKEN', 'APP_MISMATCH'],
  },
];
