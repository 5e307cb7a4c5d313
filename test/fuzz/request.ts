import { type Agent, type IncomingMessage, request } from 'node:http';
import fc from 'fast-check';
import type { Endpoint, EndpointList } from '../support/api/endpoints.ts';
import { type FuzzRequest, requestsOf } from './arbitraries.ts';

/** A request as it is written to the wire. */
export interface WireRequest {
  method: string;
  target: string;
  headers: readonly (readonly [name: string, value: string])[];
  body: Buffer | undefined;
}

export interface WireResponse {
  status: number;
  type: string;
  text: string;
}

const TIMEOUT_MS = 30_000;
const PLACEHOLDER = /\{\{([\w.]+)\}\}/g;

/**
 * Tries random requests of endpoints, which the seed decides, until one of an endpoint has a fault.
 *
 * @param wireOf writes a request, for a command that repeats it
 * @returns violations, each with the smallest request that shows it
 */
export async function tryRequests(
  list: EndpointList,
  { perRoute, seed, log }: { perRoute: number; seed: number; log?: (line: string) => void },
  base: string,
  tryRequest: (request: FuzzRequest, endpoint: Endpoint) => Promise<void>,
  wireOf: (request: FuzzRequest) => WireRequest,
): Promise<string[]> {
  const violations: string[] = [];
  for (const endpoint of list.endpoints) {
    const property = fc.asyncProperty(requestsOf(list, endpoint), (one) =>
      tryRequest(one, endpoint),
    );
    const { failed, counterexample, errorInstance, numRuns } = await fc.check(property, {
      ...{ numRuns: perRoute, seed },
    });
    log?.(`${endpoint.id}: ${numRuns} requests`);
    if (!failed) continue;
    const [smallest] = counterexample ?? [];
    const curl = smallest && toCurl(base, wireOf(smallest));
    violations.push(`${endpoint.method} ${endpoint.path}: ${String(errorInstance)}\n${curl}`);
  }
  return violations;
}

/** Fills the placeholders of a request whose values are known, and adds the headers of its host and its length. */
export function fillRequest(
  base: string,
  { method, target, headers, body }: FuzzRequest,
  values: Readonly<Record<string, string>>,
): WireRequest {
  const fill = (text: string) =>
    text.replaceAll(PLACEHOLDER, (all, name: string) => values[name] ?? all);
  const bytes = body === undefined ? undefined : Buffer.from(fill(body), 'latin1');
  return {
    method,
    target: fill(target),
    headers: [
      ['host', new URL(base).host],
      ...headers.map(([name, value]) => [fill(name), fill(value)] as const),
      ...(bytes === undefined ? [] : [['content-length', `${bytes.length}`] as const]),
    ],
    body: bytes,
  };
}

/**
 * Sends a request without any correction by the client.
 *
 * @throws when there is no response within 30 s, or the connection breaks before it is complete
 */
export async function sendRequest(
  api: string,
  agent: Agent,
  wire: WireRequest,
): Promise<WireResponse> {
  try {
    return await sendOnce(api, agent, wire);
  } catch (error) {
    // The server closed the idle connection just when it was used again: nothing of the request was read.
    if (!(error instanceof StaleConnectionError)) throw error;
    return sendOnce(api, agent, wire);
  }
}

class StaleConnectionError extends Error {}

function sendOnce(api: string, agent: Agent, wire: WireRequest): Promise<WireResponse> {
  const { method, target: path, headers, body } = wire;
  const { hostname, port } = new URL(api);
  return new Promise((resolve, reject) => {
    const sent = request({
      ...{ agent, hostname, port, method, path, timeout: TIMEOUT_MS, setHost: false },
      headers: headers.flat(),
    });
    let response: IncomingMessage | undefined;
    sent.on('response', (incoming) => {
      response = incoming;
      readResponse(incoming).then(resolve, reject);
    });
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)));
    sent.on('error', (error: NodeJS.ErrnoException) => {
      // A refused body need not be read to its end; the response counts.
      if (response !== undefined) return;
      const isStale = sent.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(error.code ?? '');
      reject(isStale ? new StaleConnectionError() : error);
    });
    sent.end(body);
  });
}

async function readResponse(response: IncomingMessage): Promise<WireResponse> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const { statusCode: status = 0, headers } = response;
  return { status, type: headers['content-type'] ?? '', text: Buffer.concat(chunks).toString() };
}

/** Writes a request as a command to copy. */
function toCurl(api: string, { method, target, headers, body }: WireRequest): string {
  const options = [
    ...['--globoff', '--path-as-is', '-i', '-X', method, quote(new URL(api).origin + target)],
    ...headers
      .filter(([name]) => !IMPLIED.test(name))
      .flatMap(([name, value]) => ['-H', quote(`${name}: ${value}`)]),
  ].join(' ');
  if (body === undefined) return `curl ${options}`;
  if (isPlain(body)) return `curl ${options} --data-binary ${quote(body.toString())}`;
  return `echo ${body.toString('base64')} | base64 -d | curl ${options} --data-binary @-`;
}

/** Headers that curl writes itself. */
const IMPLIED = /^(?:host|content-length|connection)$/i;

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Checks that a shell and a terminal can show the bytes. */
function isPlain(body: Buffer): boolean {
  return /^[\x20-\x7e]*$/.test(body.toString('latin1'));
}
