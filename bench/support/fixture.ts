import { type Audience, createAudience } from './audience.ts';
import {
  createHttpConnections,
  encodeHttpRequest,
  type HttpConnections,
  type HttpResponse,
} from './http-connections.ts';
import { connectServers, type Servers } from './servers.ts';
import { type Stack, startStack } from './stack.ts';
import { until } from './until.ts';

/** Size of a run. */
export type Size = 'quick' | 'usual' | 'full';

/** Opened on first use. */
const CONNECTIONS = 400;

/** A stack and the functions to use it. */
export interface StackFixture extends Servers {
  stack: Stack;
  audience: Audience;
  connections: HttpConnections;
  /** Builds a request to the API, with the API key of the stack's app, or another one. */
  request(method: string, path: string, body?: string, apiKey?: string): Buffer;
  /** Sends a request. @throws when the status is not 200 */
  call(request: Buffer): Promise<HttpResponse>;
  /** Sends a push and returns its id. */
  push(to: string | readonly string[], fields?: Record<string, unknown>): Promise<string>;
  /** Waits until the stack has no pending work besides inbox rows. */
  untilIdle(): Promise<void>;
}

/**
 * Starts a stack and connects to it.
 *
 * @param env more variables of `npm start`
 */
export async function openStackFixture(
  gateways: number,
  env: Record<string, string> = {},
): Promise<StackFixture> {
  const stack = await startStack({ gateways, env });
  const servers = await connectServers(stack.dev).catch(async (error: unknown) => {
    await stack.stop();
    throw error;
  });
  return createFixture(stack, servers, async () => {
    await servers.close();
    await stack.stop();
  });
}

function createFixture(
  stack: Stack,
  servers: Pick<Servers, 'mongo' | 'redis'>,
  closeStack: () => Promise<void>,
): StackFixture {
  const { mongo, redis } = servers;
  const api = new URL(stack.dev.api);
  const connections = createHttpConnections(api, CONNECTIONS);
  const request: StackFixture['request'] = (method, path, body, apiKey = stack.dev.apiKey) => {
    const url = new URL(path, api);
    url.searchParams.set('api_key', apiKey);
    return encodeHttpRequest(method, url, body);
  };
  const call: StackFixture['call'] = async (bytes) => {
    const response = await connections.send(bytes);
    if (response.status !== 200) throw new Error(`the API: ${response.status} ${response.body}`);
    return response;
  };
  return {
    mongo,
    redis,
    stack,
    connections,
    audience: createAudience(stack, mongo),
    request,
    call,
    async push(to, fields = {}) {
      const body = JSON.stringify({ to, data: { message: 'Hello' }, ...fields });
      return pushIdOf(await call(request('POST', '/push', body)));
    },
    untilIdle: () => until('the stack to be idle', () => isIdle(mongo), { everyMs: 100 }),
    async close() {
      connections.close();
      await closeStack();
    },
  };
}

/** Reads the id in the response to `POST /push`. */
export function pushIdOf({ body }: HttpResponse): string {
  return (JSON.parse(body) as { id: string }).id;
}

async function isIdle(mongo: Servers['mongo']): Promise<boolean> {
  const unfinished = await Promise.all([
    mongo.collection('pushes').findOne({ 'work.state': 'ready', state: 'open' }),
    mongo.collection('pushes').findOne({ 'fan.done': false, state: 'open' }),
    mongo.collection('batches').findOne({ 'work.state': { $in: ['ready', 'waiting'] } }),
  ]);
  return unfinished.every((one) => one === null);
}
