import { z } from 'zod';
import { type ConsoleErrorCode, type ConsoleRoute, ERROR_STATUS } from '../http/route.ts';
import { ADMIN_API } from '../http/routing.ts';
import { OPERATIONS, type Operation } from './operations.ts';

const JSON_TYPE = 'application/json';
const PARAMETER = /:(\w+)/g;

/** JSON schema of the object that a route parses. */
interface InputSchema {
  properties?: Record<string, object>;
  required?: string[];
}

const COMMON_ERRORS: readonly ConsoleErrorCode[] = [
  ...(['INVALID_PARAM', 'UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'] as const),
  ...(['INTERNAL', 'UNAVAILABLE'] as const),
];
/** Errors of requests that change something. */
const CHANGE_ERRORS: readonly ConsoleErrorCode[] = [
  ...(['CONFLICT', 'TOO_LARGE', 'TOO_MANY_ATTEMPTS'] as const),
];
/** Errors of requests that send a push. */
const SEND_ERRORS: readonly ConsoleErrorCode[] = ['ACCOUNT_SUSPENDED', 'RATE_LIMIT_EXCEEDED'];

const ERROR_SCHEMA = {
  type: 'object',
  required: ['code', 'error', 'requestId'],
  properties: {
    code: { type: 'string', enum: Object.keys(ERROR_STATUS) },
    error: { type: 'string', description: 'Description of the error for people.' },
    parameter: { type: 'string', description: 'Name of the invalid parameter of a push.' },
    requestId: { type: 'string', description: 'Id of the request in the log of the console.' },
  },
};

/**
 * Creates the OpenAPI 3.1 document of the admin API from the schemas that parse its requests.
 *
 * @param routes of which the public ones are described
 * @param version of the product
 * @param server URL of the console
 */
export function createAdminDocument(
  routes: readonly ConsoleRoute[],
  version: string,
  server: string,
): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes.filter(({ isPublic }) => isPublic)) {
    const path = `/api${ADMIN_API}${route.path.replace(PARAMETER, '{$1}')}`;
    paths[path] = { ...paths[path], [route.method]: describeRoute(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Carillon admin API',
      version,
      description: 'Accounts, apps, keys, credentials and webhooks, for programs of operators.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: server }],
    security: [{ operatorToken: [] }],
    tags: [...new Set(Object.values(OPERATIONS).map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        operatorToken: {
          type: 'http',
          scheme: 'bearer',
          description:
            'Operator token, made in the console or by `carillon operator token create`.',
        },
      },
      schemas: { Error: ERROR_SCHEMA },
    },
  };
}

function describeRoute(route: ConsoleRoute): object {
  const { method, path, role, account } = route;
  const operation: Operation | undefined = OPERATIONS[`${method} ${path}`];
  const { properties = {}, required = [] } = toInputSchema(route);
  const inPath = [...path.matchAll(PARAMETER)].map(([, name = '']) => name);
  const others = Object.entries(properties).filter(([name]) => !inPath.includes(name));
  const hasBody = others.length > 0 && ['post', 'put', 'patch'].includes(method);
  const describe =
    (place: string) =>
    ([name, schema]: [string, object]) => ({
      ...{ name, in: place, required: required.includes(name), schema },
    });
  const ofAll = account === 'installation' ? ' and access to all accounts' : '';
  return {
    operationId: toOperationId(route),
    ...(operation !== undefined && { tags: [operation.tag], summary: operation.summary }),
    description: `Needs the role ${role}${ofAll}.`,
    parameters: [
      ...inPath.map((name) => describe('path')([name, properties[name] ?? {}])),
      ...(hasBody ? [] : others.map(describe('query'))),
    ],
    ...(hasBody && {
      requestBody: {
        required: true,
        content: { [JSON_TYPE]: describeBody(others, required, operation) },
      },
    }),
    responses: {
      200: {
        description: 'Success',
        content: { [JSON_TYPE]: { schema: describeResponse('cursor' in properties) } },
      },
      ...describeErrors(route),
    },
  };
}

/** Defaults are left out: generators of clients take a field with one for a required field. */
function toInputSchema({ input }: ConsoleRoute): InputSchema {
  const override = ({ jsonSchema }: { jsonSchema: { default?: unknown } }) => {
    delete jsonSchema.default;
  };
  return z.toJSONSchema(input, { io: 'input', override }) as InputSchema;
}

function describeBody(
  fields: [string, object][],
  required: readonly string[],
  operation: Operation | undefined,
): object {
  const names = fields.map(([name]) => name);
  const examples = Object.entries(operation?.examples ?? {});
  return {
    schema: {
      type: 'object',
      properties: Object.fromEntries(fields),
      required: required.filter((name) => names.includes(name)),
    },
    ...(examples.length > 0 && {
      examples: Object.fromEntries(examples.map(([name, value]) => [name, { value }])),
    }),
  };
}

function describeResponse(isPage: boolean): object {
  if (!isPage) return { type: 'object' };
  const next = { type: 'string', description: 'Cursor of the next page; absent on the last.' };
  const items = { type: 'array', items: { type: 'object' } };
  return { type: 'object', required: ['items'], properties: { items, next } };
}

/** Groups the errors of a route by their status. */
function describeErrors({ method, path }: ConsoleRoute): object {
  const codes = [
    ...COMMON_ERRORS,
    ...(method === 'get' ? [] : CHANGE_ERRORS),
    ...(path.endsWith('/credentials/:channel/test') ? SEND_ERRORS : []),
  ];
  const schema = { $ref: '#/components/schemas/Error' };
  const byStatus = Map.groupBy(codes, (code) => ERROR_STATUS[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, of]) => [
      status,
      { description: of.join(', '), content: { [JSON_TYPE]: { schema } } },
    ]),
  );
}

/** Makes the name of a function in a generated client: `get /apps/:app/keys` becomes `getAppsAppKeys`. */
function toOperationId({ method, path }: ConsoleRoute): string {
  const words = path.split(/[^A-Za-z]+/).filter((word) => word !== '');
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}
