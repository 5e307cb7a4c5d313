import { z } from 'zod';
import {
  addedWebhookResponse,
  addWebhookRequest,
  editedWebhookResponse,
  editWebhookRequest,
  replayedResponse,
  replayRequest,
  rotatedResponse,
  webhooksResponse,
} from '../webhooks/schema.ts';
import type { Operation, Parameter } from './operation.ts';
import { SUCCESS_RESPONSE } from './success.ts';

const WEBHOOK_ID = '5b1e0c8a7d2f4e6b9a0c1d2e';
const PUSH_ID = '5a4f9e1b2c3d4e5f60718293';
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const WEBHOOK = {
  id: WEBHOOK_ID,
  host: 'backend.example.com',
  events: ['push.finished', 'recipient.failed'] as const,
  state: 'on' as const,
  createdAt: '2026-11-20T08:00:00.000Z',
};

const webhookId: Parameter = {
  name: 'webhook_id',
  in: 'path',
  required: true,
  schema: z.string(),
  description: 'Identifier of the webhook, as returned by POST /webhooks.',
  example: WEBHOOK_ID,
};

/** Endpoints of webhooks. */
export const WEBHOOK_OPERATIONS: readonly Operation[] = [
  {
    id: 'addWebhook',
    tag: 'Webhooks',
    method: 'post',
    path: '/webhooks',
    summary: 'Add a webhook',
    description:
      'Adds an address that events are sent to, signed as Standard Webhooks defines. An app can have five. The secret is shown only in this response. Events are sent for pushes that are accepted from 10 seconds later on.',
    calledBy: 'backend',
    request: {
      schema: addWebhookRequest,
      example: {
        url: 'https://backend.example.com/carillon',
        events: ['push.finished', 'recipient.failed'],
      },
    },
    response: { schema: addedWebhookResponse, example: { webhook: WEBHOOK, secret: SECRET } },
    errors: ['WEBHOOK_LIMIT_EXCEEDED'],
  },
  {
    id: 'listWebhooks',
    tag: 'Webhooks',
    method: 'get',
    path: '/webhooks',
    summary: 'List webhooks',
    description: 'Returns the webhooks of the app with their state and the last response.',
    calledBy: 'backend',
    response: { schema: webhooksResponse, example: { webhooks: [WEBHOOK] } },
    errors: [],
  },
  {
    id: 'editWebhook',
    tag: 'Webhooks',
    method: 'patch',
    path: '/webhooks/{webhook_id}',
    summary: 'Edit a webhook',
    description:
      'Changes the address of a webhook, its events, or both. The secret stays, and reported events are not reported again. A new address begins without the failures of the previous one.',
    calledBy: 'backend',
    parameters: [webhookId],
    request: {
      schema: editWebhookRequest,
      example: {
        url: 'https://backend.example.com/carillon',
        events: ['push.finished', 'recipient.failed'],
      },
    },
    response: { schema: editedWebhookResponse, example: { webhook: WEBHOOK } },
    errors: ['INVALID_WEBHOOK_ID'],
  },
  {
    id: 'deleteWebhook',
    tag: 'Webhooks',
    method: 'delete',
    path: '/webhooks/{webhook_id}',
    summary: 'Delete a webhook',
    description: 'Deletes a webhook. Events that were not sent yet are discarded.',
    calledBy: 'backend',
    parameters: [webhookId],
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_WEBHOOK_ID'],
  },
  {
    id: 'rotateWebhook',
    tag: 'Webhooks',
    method: 'post',
    path: '/webhooks/{webhook_id}/rotate',
    summary: 'Rotate the secret of a webhook',
    description:
      'Creates a new secret. For 24 hours each request has two signatures, one of them by the previous secret.',
    calledBy: 'backend',
    parameters: [webhookId],
    response: { schema: rotatedResponse, example: { secret: SECRET } },
    errors: ['INVALID_WEBHOOK_ID'],
  },
  {
    id: 'testWebhook',
    tag: 'Webhooks',
    method: 'post',
    path: '/webhooks/{webhook_id}/test',
    summary: 'Test a webhook',
    description:
      'Sends one event of type `test`, at once. GET /webhooks shows the response of the receiver.',
    calledBy: 'backend',
    parameters: [webhookId],
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_WEBHOOK_ID'],
  },
  {
    id: 'replayWebhook',
    tag: 'Webhooks',
    method: 'post',
    path: '/webhooks/{webhook_id}/replay',
    summary: 'Replay events',
    description:
      'Sends the events of a time range of pushes again, with the same ids, as far as the pushes are stored. Each request marks some pushes; repeat it with `after` while the response has `last`.',
    calledBy: 'backend',
    parameters: [webhookId],
    request: { schema: replayRequest, example: { from: 1_795_250_000, to: 1_795_253_600 } },
    response: { schema: replayedResponse, example: { pushes: 20, last: PUSH_ID } },
    errors: ['INVALID_WEBHOOK_ID'],
  },
  {
    id: 'turnWebhookOff',
    tag: 'Webhooks',
    method: 'post',
    path: '/webhooks/{webhook_id}/off',
    summary: 'Turn a webhook off',
    description:
      'Stops sending events. Later pushes are not reported until the webhook is on again.',
    calledBy: 'backend',
    parameters: [webhookId],
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_WEBHOOK_ID'],
  },
  {
    id: 'turnWebhookOn',
    tag: 'Webhooks',
    method: 'post',
    path: '/webhooks/{webhook_id}/on',
    summary: 'Turn a webhook on',
    description: 'Sends events again, also those that were not sent before it was turned off.',
    calledBy: 'backend',
    parameters: [webhookId],
    response: SUCCESS_RESPONSE,
    errors: ['INVALID_WEBHOOK_ID'],
  },
];
