import { API_ERRORS, type ApiErrorCode } from '@carillon/core/api-error';
import { z } from 'zod';
import { createDocument, type ZodOpenApiOperationObject } from 'zod-openapi';
import { webhookEvents } from '../webhooks/schema.ts';
import { BACKEND_OPERATIONS } from './backend-operations.ts';
import { DEVICE_OPERATIONS } from './device-operations.ts';
import { EXPORT_OPERATIONS } from './export-operations.ts';
import { allowNulls } from './nullable.ts';
import { listErrors, type Operation, type Parameter } from './operation.ts';
import { OUTCOME_OPERATIONS } from './outcome-operations.ts';

/** Sections of the reference, in order. */
const TAGS = ['Pushes', 'Devices', 'Topics', 'Outcomes', 'Webhooks', 'Export', 'Registration'];

/** All endpoints, in the order of the reference. */
export const OPERATIONS: readonly Operation[] = [
  ...BACKEND_OPERATIONS,
  ...OUTCOME_OPERATIONS,
  ...EXPORT_OPERATIONS,
  ...DEVICE_OPERATIONS,
];

const JSON_TYPE = 'application/json';

const errorBody = z
  .looseObject({
    code: z.string().meta({ description: 'Constant string that identifies the error.' }),
    error: z.string().meta({ description: 'Human-readable description of the error.' }),
  })
  .meta({ id: 'Error' });

const SECURITY = {
  backend: [{ apiKey: [] }, { bearer: [] }],
  device: [],
  either: [{ apiKey: [] }, { bearer: [] }, {}],
} as const;

/** The requests that receivers of webhooks get. */
const WEBHOOK_REQUEST: ZodOpenApiOperationObject = {
  operationId: 'receiveEvents',
  tags: ['Webhooks'],
  summary: 'Receive events',
  description:
    'Carillon sends this to the address of a webhook, signed as in Standard Webhooks, and again until the response is 2xx.',
  security: [],
  requestParams: {
    header: z.object({
      'webhook-id': z.string(),
      'webhook-timestamp': z.string(),
      'webhook-signature': z.string(),
    }),
  },
  requestBody: { required: true, content: { [JSON_TYPE]: { schema: webhookEvents } } },
  responses: {
    '2XX': { description: 'The events are taken' },
    410: { description: 'No more events are wanted: turns the webhook off' },
  },
};

/**
 * Creates the OpenAPI 3.1 document from the schemas that validate the requests.
 *
 * @param version of the product
 * @param server URL of the API, which generated clients use unchanged
 */
export function createOpenApiDocument(version: string, server: string): object {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const operation of OPERATIONS) {
    paths[operation.path] ??= {};
    Object.assign(paths[operation.path] ?? {}, {
      [operation.method]: describeOperation(operation),
    });
  }
  const document = createDocument({
    openapi: '3.1.0',
    info: {
      title: 'Carillon',
      version,
      description: 'Push notifications for phones, browsers, desktops, and embedded devices.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: server }],
    tags: TAGS.map((name) => ({ name })),
    paths,
    webhooks: { events: { post: WEBHOOK_REQUEST } },
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'query',
          name: 'api_key',
          description: 'Secret API Key of the app. Use it only in a backend.',
        },
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'Secret API Key of the app in a header, which keeps it out of URL logs.',
        },
      },
    },
  });
  return allowNulls(document);
}

function describeOperation(operation: Operation): ZodOpenApiOperationObject {
  const { id, tag, summary, description, calledBy, request, response } = operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    security: SECURITY[calledBy].map((requirement) => ({ ...requirement })),
    requestParams: describeParameters(operation),
    ...(request && {
      requestBody: {
        required: true,
        content: { [JSON_TYPE]: { schema: request.schema, example: request.example } },
      },
    }),
    responses: {
      200: {
        description: 'Success',
        content: describeContent(response),
      },
      ...describeErrorResponses(operation),
    },
  };
}

function describeContent({ schema, example, types }: Operation['response']) {
  if (types === undefined) return { [JSON_TYPE]: { schema, example } };
  // A schema would be that of the whole text, which is not JSON.
  return Object.fromEntries(types.map((type) => [type, {}]));
}

/** Groups the parameters by location. */
function describeParameters({ parameters = [] }: Operation) {
  const createParameterSchema = (location: Parameter['in']) =>
    z.object(
      Object.fromEntries(
        parameters
          .filter((parameter) => parameter.in === location)
          .map(({ name, required, schema, description, example }) => [
            name,
            (required ? schema : schema.optional()).meta({ description, param: { example } }),
          ]),
      ),
    );
  return {
    path: createParameterSchema('path'),
    query: createParameterSchema('query'),
    header: createParameterSchema('header'),
  };
}

/** Groups the errors by HTTP status, each with an example. */
function describeErrorResponses(operation: Operation) {
  const byStatus = new Map<number, ApiErrorCode[]>();
  for (const code of listErrors(operation)) {
    const [status] = API_ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.join(', '),
        content: { [JSON_TYPE]: { schema: errorBody, examples: describeErrorExamples(codes) } },
      },
    ]),
  );
}

function describeErrorExamples(codes: readonly ApiErrorCode[]) {
  return Object.fromEntries(
    codes.map((code) => [
      code,
      { summary: API_ERRORS[code][1], value: { code, error: API_ERRORS[code][1] } },
    ]),
  );
}
