import { API_ERRORS, type ApiErrorCode } from '@carillon/core/api-error';
import { z } from 'zod';
import { createDocument, type ZodOpenApiOperationObject } from 'zod-openapi';
import { BACKEND_OPERATIONS } from './backend-operations.ts';
import { DEVICE_OPERATIONS } from './device-operations.ts';
import { errorsOf, type Operation, type Parameter } from './operation.ts';

/** Every endpoint, in the order of the reference. */
export const OPERATIONS: readonly Operation[] = [...BACKEND_OPERATIONS, ...DEVICE_OPERATIONS];

const JSON_TYPE = 'application/json';

const errorBody = z
  .looseObject({
    code: z.string().meta({ description: 'Constant name of the error.' }),
    error: z.string().meta({ description: 'Explanation.' }),
  })
  .meta({ id: 'Error' });

const SECURITY = {
  backend: [{ apiKey: [] }, { bearer: [] }],
  device: [],
  either: [{ apiKey: [] }, { bearer: [] }, {}],
} as const;

/**
 * The OpenAPI 3.1 document, made from the schemas that check the requests.
 *
 * @param version of the product
 */
export function openApiDocument(version: string): object {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const operation of OPERATIONS) {
    paths[operation.path] ??= {};
    Object.assign(paths[operation.path] ?? {}, { [operation.method]: describe(operation) });
  }
  return createDocument({
    openapi: '3.1.0',
    info: {
      title: 'Carillon',
      version,
      description: 'Push notifications to phones, browsers, desktops and small machines.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: ['Pushes', 'Devices', 'Topics', 'Registration'].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'query',
          name: 'api_key',
          description: 'Secret API Key of the app. For backends only.',
        },
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The same key in a header, which stays out of logs of URLs.',
        },
      },
    },
  });
}

function describe(operation: Operation): ZodOpenApiOperationObject {
  const { id, tag, summary, description, calledBy, request, response } = operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    security: SECURITY[calledBy].map((one) => ({ ...one })),
    requestParams: parametersOf(operation),
    ...(request && {
      requestBody: {
        required: true,
        content: { [JSON_TYPE]: { schema: request.schema, example: request.example } },
      },
    }),
    responses: {
      200: {
        description: 'Success',
        content: { [JSON_TYPE]: { schema: response.schema, example: response.example } },
      },
      ...errorResponses(operation),
    },
  };
}

/** The parameters by where they stand. */
function parametersOf({ parameters = [] }: Operation) {
  const shapeOf = (place: Parameter['in']) =>
    z.object(
      Object.fromEntries(
        parameters
          .filter((one) => one.in === place)
          .map(({ name, required, schema, description, example }) => [
            name,
            (required ? schema : schema.optional()).meta({ description, param: { example } }),
          ]),
      ),
    );
  return { path: shapeOf('path'), query: shapeOf('query'), header: shapeOf('header') };
}

/** The errors by their HTTP status, each with an example. */
function errorResponses(operation: Operation) {
  const byStatus = new Map<number, ApiErrorCode[]>();
  for (const code of errorsOf(operation)) {
    const [status] = API_ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.join(', '),
        content: { [JSON_TYPE]: { schema: errorBody, examples: errorExamples(codes) } },
      },
    ]),
  );
}

function errorExamples(codes: readonly ApiErrorCode[]) {
  return Object.fromEntries(
    codes.map((code) => [
      code,
      { summary: API_ERRORS[code][1], value: { code, error: API_ERRORS[code][1] } },
    ]),
  );
}
