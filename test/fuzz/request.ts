import { type Agent, type IncomingMessage, request } from 'node:http';

/** Keys that a request can be sent with. */
export type Credential = 'caller' | 'other' | 'wrong' | 'none';

/** A generated request. `{{name}}` in its texts is replaced by an id or a key that is known when it is sent. */
export interface FuzzRequest {
  credential: Credential;
  method: string;
  /** Path and query as they are written to the wire, without the key. */
  target: string;
  headers: readonly (readonly [name: string, value: string])[];
  /** Bytes as latin1 text. */
  body: string | undefined;
}

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
export function toCurl(api: string, { method, target, headers, body }: WireRequest): string {
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
