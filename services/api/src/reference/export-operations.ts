import { z } from 'zod';
import { EXPORT_FORMATS } from '../export/format.ts';
import { deviceLine, pushLine, recipientExportLine, subscriptionLine } from '../export/schema.ts';
import type { Operation, Parameter } from './operation.ts';

const TOKEN = 'a6345d0278adc55d3474f5';
const PUSH_ID = '5a4f9e1b2c3d4e5f60718293';
const DATE = 1_795_250_000;
const EXPORT_TYPES = ['application/x-ndjson', 'text/csv'] as const;

const DESCRIPTION =
  'Streams one line for each entry, in order, and a last line `complete`: without it the response was cut. Continue after the last entry with `after`. The format is NDJSON, or CSV with `format=csv` or `Accept: text/csv`. An app can have two exports in progress.';

function describeParameters(afterDescription: string, after: string): Parameter[] {
  return [
    {
      name: 'format',
      in: 'query',
      required: false,
      schema: z.enum(EXPORT_FORMATS),
      description: 'Format of the export.',
      example: 'ndjson',
    },
    {
      name: 'after',
      in: 'query',
      required: false,
      schema: z.string(),
      description: `Only entries after this one: ${afterDescription}.`,
      example: after,
    },
  ];
}

const EXPORT = { tag: 'Export', method: 'get', calledBy: 'backend' } as const;

/** Endpoints by which an app exports its data. */
export const EXPORT_OPERATIONS: readonly Operation[] = [
  {
    ...EXPORT,
    id: 'exportDevices',
    path: '/export/devices',
    summary: 'Export devices',
    description: DESCRIPTION,
    parameters: describeParameters('a device token', TOKEN),
    response: {
      types: EXPORT_TYPES,
      schema: deviceLine,
      example: { token: TOKEN, platform: 'electron', date: DATE, last_active: DATE },
    },
    errors: [],
  },
  {
    ...EXPORT,
    id: 'exportSubscriptions',
    path: '/export/subscriptions',
    summary: 'Export subscriptions',
    description: DESCRIPTION,
    parameters: describeParameters('a topic, a colon, and a device token', `news:${TOKEN}`),
    response: {
      types: EXPORT_TYPES,
      schema: subscriptionLine,
      example: { topic: 'news', token: TOKEN, platform: 'electron', date: DATE },
    },
    errors: [],
  },
  {
    ...EXPORT,
    id: 'exportPushes',
    path: '/export/pushes',
    summary: 'Export pushes',
    description: DESCRIPTION,
    parameters: describeParameters('the id of a push', PUSH_ID),
    response: {
      types: EXPORT_TYPES,
      schema: pushLine,
      example: {
        ...{ id: PUSH_ID, state: 'open', date: DATE, expiration: DATE + 60, devices: 1 },
        payload: { message: 'Hello World!' },
      },
    },
    errors: [],
  },
  {
    ...EXPORT,
    id: 'exportRecipients',
    path: '/export/recipients',
    summary: 'Export the recipients of a push',
    description: `${DESCRIPTION} While topics of the push are being resolved, the last line says that the export is not complete.`,
    parameters: [
      {
        name: 'push',
        in: 'query',
        required: true,
        schema: z.string(),
        description: 'Identifier of the push.',
        example: PUSH_ID,
      },
      ...describeParameters('the device token of a recipient', TOKEN),
    ],
    response: {
      types: EXPORT_TYPES,
      schema: recipientExportLine,
      example: { token: TOKEN, outcome: 'delivered', channel: 'mqtt', milliseconds: 42 },
    },
    errors: ['INVALID_PUSH_ID'],
  },
];
