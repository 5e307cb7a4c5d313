import { API_ERRORS } from '../../packages/core/src/api-error.ts';
import { type Endpoint, readEndpoints } from '../support/api/endpoints.ts';
import type { FuzzRequest } from './arbitraries.ts';
import type { FuzzTarget } from './fuzz-target.ts';
import { tryRequests, type WireRequest, type WireResponse } from './request.ts';

/** Result of the requests of a run. */
export interface ApiFuzzReport {
  requests: number;
  /** Responses by status. */
  statuses: Record<string, number>;
  /** Violations, each with the smallest request that shows it. */
  violations: string[];
  /** Checks whether the request of a mark was refused. */
  isRefused(mark: string): boolean;
}

/** Errors of requests that reach no endpoint, or no handler of it. */
const COMMON_CODES = ['NOT_FOUND', 'METHOD_NOT_ALLOWED', 'HEADERS_TOO_LARGE', 'INVALID_PARAM'];
/** No device and no push of a tenant has it in its own data. */
const MARK = 'fuzzmark';
/** Texts by which a program shows its inside. */
export const INSIDE = /\bat \S+ \(|\.ts:\d|node_modules|Mongo\w*Error|ReplyError/;

/** Finds marks of requests in a text. */
export const MARKS = new RegExp(`${MARK}\\d+x`, 'g');

/**
 * Sends `perRoute` random requests to each endpoint of the OpenAPI document. The seed decides all of them.
 *
 * @param routes only endpoints whose path begins with it
 * @throws when none does
 */
export async function fuzzApi(
  target: FuzzTarget,
  {
    perRoute,
    seed,
    routes = '',
    log,
  }: { perRoute: number; seed: number; routes?: string; log?: (line: string) => void },
): Promise<ApiFuzzReport> {
  const list = await readEndpoints(target.api);
  const statuses: Record<string, number> = {};
  const refused = new Set<string>();
  let requests = 0;

  let current: Endpoint | undefined;

  async function tryRequest(generated: FuzzRequest, endpoint: Endpoint): Promise<void> {
    if (current !== endpoint) await target.renew();
    current = endpoint;
    requests += 1;
    const mark = `${MARK}${requests}x`;
    const wire = target.toWire(generated, mark);
    const response = await target.send(wire);
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
    if (response.status >= 400) refused.add(mark);
    const problem = findProblem(target, endpoint, { generated, wire, response });
    if (problem !== undefined) throw new Error(problem);
    if (response.status !== 200) return;
    if (wire.method === 'POST') for (const id of findNewIds(response.text)) target.knownIds.add(id);
    if (wire.method === 'DELETE') await target.renew();
  }

  const endpoints = list.endpoints
    .filter(({ path }) => path.startsWith(routes))
    .sort((left, right) => Number(isWrite(left)) - Number(isWrite(right)));
  if (endpoints.length === 0) throw new Error(`no path begins with ${routes}`);
  const violations = await tryRequests(
    { ...list, endpoints },
    { perRoute, seed, ...(log && { log }) },
    target.api,
    tryRequest,
    (request) => target.toWire(request, `${MARK}0x`),
  );
  return { requests, statuses, violations, isRefused: (mark) => refused.has(mark) };
}

/** Reads go first: a list of all topics is long after a hundred thousand requests that create topics. */
function isWrite({ method }: Endpoint): boolean {
  return method !== 'GET';
}

/** Returns the fault of a response; undefined if it has none. */
function findProblem(
  target: FuzzTarget,
  endpoint: Endpoint,
  {
    generated,
    wire,
    response,
  }: { generated: FuzzRequest; wire: WireRequest; response: WireResponse },
): string | undefined {
  const { status, text } = response;
  if (status >= 500) return `a ${status}: ${text}`;
  const requested = `${wire.target} ${wire.body?.toString('latin1')} ${wire.headers.join()}`;
  const leaked = target.victimSecrets.find(
    (secret) => text.includes(secret) && !requested.includes(secret),
  );
  if (leaked !== undefined) return `${leaked} of another tenant in the response`;
  if (target.keys.some((key) => text.includes(key))) return 'an API key in the response';
  const isPlain = isAsDescribed(endpoint, generated);
  if (status < 400) {
    const hasNoKey = ['none', 'wrong'].includes(generated.credential);
    return isPlain && endpoint.needsApiKey && hasNoKey
      ? `a ${status} without a key`
      : findTypeProblem(endpoint, isPlain, generated.method, response);
  }
  return generated.method === 'HEAD' ? undefined : findErrorProblem(endpoint, isPlain, response);
}

/** Checks that a request reaches its endpoint: it has the method, and no parameter is empty or leads elsewhere. */
function isAsDescribed({ method, path }: Endpoint, generated: FuzzRequest): boolean {
  const [target = ''] = generated.target.split('?');
  const parts = target.split('/');
  const isWhole = parts.length === path.split('/').length && !parts.slice(1).includes('');
  return generated.method === method && isWhole;
}

function findTypeProblem(
  { types }: Endpoint,
  isPlain: boolean,
  method: string,
  { status, type, text }: WireResponse,
): string | undefined {
  if (method === 'HEAD' || status === 204) return undefined;
  if (isPlain && !types.some((one) => type.startsWith(one))) return `a response of type ${type}`;
  if (!type.startsWith('application/json')) return undefined;
  return isObject(text) ? undefined : `a response that is no JSON object: ${text.slice(0, 200)}`;
}

function findErrorProblem(
  { codes }: Endpoint,
  isPlain: boolean,
  { status, type, text }: WireResponse,
): string | undefined {
  const shown = `${status} ${text.slice(0, 300)}`;
  if (!type.startsWith('application/json') || !isObject(text))
    return `an error that is no JSON: ${shown}`;
  const error = JSON.parse(text) as Record<string, unknown>;
  const { code } = error;
  if (Object.keys(error).sort().join() !== 'code,error' || typeof error.error !== 'string')
    return `an error of another form: ${shown}`;
  if (typeof code !== 'string' || !isKnown(code) || API_ERRORS[code][0] !== status)
    return `a code that does not go with the status: ${shown}`;
  if (isPlain && !codes.has(code) && !COMMON_CODES.includes(code))
    return `an error that the document does not have: ${shown}`;
  return INSIDE.test(error.error) ? `an error that shows the inside: ${shown}` : undefined;
}

function isKnown(code: string): code is keyof typeof API_ERRORS {
  return Object.hasOwn(API_ERRORS, code);
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Ids of a push, a device or a webhook that a response names as new. */
function findNewIds(text: string): string[] {
  return [...text.matchAll(/"(?:id|token)":"([0-9a-f]{22,24})"/g)].map(([, id = '']) => id);
}
