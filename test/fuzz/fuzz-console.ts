import { Agent } from 'node:http';
import type { Endpoint, EndpointList, JsonSchema } from '../support/api/endpoints.ts';
import type { FuzzRequest } from './arbitraries.ts';
import { INSIDE } from './fuzz-api.ts';
import {
  fillRequest,
  sendRequest,
  tryRequests,
  type WireRequest,
  type WireResponse,
} from './request.ts';

/** Result of the requests of a run. */
export interface ConsoleFuzzReport {
  /** Responses by status. */
  statuses: Record<string, number>;
  /** Violations, each with the smallest request that shows it. */
  violations: string[];
}

const text: JsonSchema = { type: 'string' };
/** Headers of routes with which a request proves its rights. A header takes no other characters. */
const HEADERS: Record<string, [name: string, schema: JsonSchema]> = {
  '/api/setup': ['x-setup-token', { type: 'string', pattern: '^[!-~]{0,60}$' }],
  '/api/v1/apps': ['authorization', { type: 'string', pattern: '^(Bearer )?(cop_)?[!-~]{0,60}$' }],
};
/** Headers that the generator does not choose. */
const OWN_HEADERS = ['origin', 'x-forwarded-for'];
const JSON_TYPE = 'application/json';

/** Describes a route. @param fields of the query, or of the body of a POST */
function endpoint(method: string, path: string, fields: Record<string, JsonSchema>): Endpoint {
  const isPost = method === 'POST';
  const schema = { type: 'object', properties: fields, required: Object.keys(fields) };
  const parameters = Object.entries(isPost ? {} : fields).map(([name, field]) => ({
    ...{ name, in: 'query' as const, required: true, schema: field, example: '' },
  }));
  const header = HEADERS[path];
  const headers = (header === undefined ? [] : [header]).map(([name, ofHeader]) => ({
    ...{ name, in: 'header' as const, required: false, schema: ofHeader, example: '' },
  }));
  return {
    ...{ id: `${method} ${path}`, method, path, needsApiKey: false, codes: new Set() },
    parameters: [...parameters, ...headers],
    body: isPost ? { schema, example: {} } : undefined,
    types: [JSON_TYPE],
  };
}

/** The routes of the console that work without a session, and some that need one or a token. */
const ROUTES = [
  endpoint('GET', '/api/login', {}),
  endpoint('POST', '/api/login', { name: text, password: text }),
  endpoint('GET', '/api/session', {}),
  endpoint('POST', '/api/logout', {}),
  endpoint('POST', '/api/password', { current: text, next: text }),
  endpoint('GET', '/api/setup', {}),
  endpoint('POST', '/api/setup', { token: text, name: text, password: text }),
  endpoint('GET', '/api/oidc/start', { return: text }),
  endpoint('GET', '/api/oidc/callback', { code: text, state: text }),
  endpoint('POST', '/api/apps', { name: text }),
  endpoint('GET', '/api/v1/apps', {}),
  endpoint('POST', '/api/v1/apps', { name: text }),
];
const LIST: EndpointList = { endpoints: ROUTES, resolve: (schema) => schema };

/**
 * Sends `perRoute` random requests to each route of the console that is open to everyone. The seed decides all of them.
 * The console must trust one entry of X-Forwarded-For: each request has an address of its own, or wrong passwords would wait.
 */
export async function fuzzConsole(
  origin: string,
  { perRoute, seed }: { perRoute: number; seed: number },
): Promise<ConsoleFuzzReport> {
  const agent = new Agent({ keepAlive: true });
  const statuses: Record<string, number> = {};
  let requests = 0;

  async function tryRequest(generated: FuzzRequest): Promise<void> {
    requests += 1;
    const response = await sendRequest(origin, agent, toWire(origin, generated, requests));
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
    const problem = findProblem(generated, response);
    if (problem !== undefined) throw new Error(problem);
  }
  const wireOf = (request: FuzzRequest) => toWire(origin, request, 0);
  const violations = await tryRequests(LIST, { perRoute, seed }, origin, tryRequest, wireOf);
  agent.destroy();
  return { statuses, violations };
}

function toWire(origin: string, request: FuzzRequest, number: number): WireRequest {
  const address = `203.${(number >> 16) & 255}.${(number >> 8) & 255}.${number & 255}`;
  const headers = [
    ['origin', origin] as const,
    ...request.headers.filter(([name]) => !OWN_HEADERS.includes(name)),
    ['x-forwarded-for', address] as const,
  ];
  return fillRequest(origin, { ...request, headers }, { mark: `mark${number}` });
}

/** Returns the fault of a response; undefined if it has none. */
function findProblem({ method }: FuzzRequest, response: WireResponse): string | undefined {
  const { status, type, text: body } = response;
  const shown = `${status} ${body.slice(0, 300)}`;
  if (status >= 500) return `a ${shown}`;
  if (INSIDE.test(body)) return `a response that shows the inside: ${shown}`;
  if (status < 400 || method === 'HEAD') return undefined;
  if (!type.startsWith(JSON_TYPE)) return `an error that is no JSON: ${shown}`;
  const { code, error } = JSON.parse(body) as Record<string, unknown>;
  if (typeof code === 'string' && typeof error === 'string') return undefined;
  return `an error of another form: ${shown}`;
}
