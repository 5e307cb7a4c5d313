import { type Audience, createAudience } from './audience.ts';
import { createHttpLinks, type HttpAnswer, type HttpLinks, httpRequest } from './http-links.ts';
import { connectServers, type Servers } from './servers.ts';
import { type Stack, startStack } from './stack.ts';
import { until } from './until.ts';

/** How large a run is. */
export type Size = 'quick' | 'usual' | 'full';

const LINKS = 100;

/** A stack, and what a row needs to work with it. */
export interface Scene extends Servers {
  stack: Stack;
  audience: Audience;
  links: HttpLinks;
  /** A request to the API, key included. */
  request(method: string, path: string, body?: string): Buffer;
  /** Sends it. @throws when the answer isn't 200 */
  call(request: Buffer): Promise<HttpAnswer>;
  /** Sends a push and gives its id. */
  push(to: string | readonly string[], fields?: Record<string, unknown>): Promise<string>;
  /** Waits until the stack owes nobody any work (rows in inboxes aside). */
  untilIdle(): Promise<void>;
}

/** Starts a stack and connects to it. */
export async function openScene(gateways: number): Promise<Scene> {
  const stack = await startStack({ gateways });
  const servers = await connectServers(stack.dev).catch(async (error: unknown) => {
    await stack.stop();
    throw error;
  });
  const api = new URL(stack.dev.api);
  const links = createHttpLinks(api, LINKS);
  const request: Scene['request'] = (method, path, body) => {
    const url = new URL(path, api);
    url.searchParams.set('api_key', stack.dev.apiKey);
    return httpRequest(method, url, body);
  };
  const call: Scene['call'] = async (bytes) => {
    const answer = await links.send(bytes);
    if (answer.status !== 200) throw new Error(`the API: ${answer.status} ${answer.body}`);
    return answer;
  };
  return {
    ...servers,
    stack,
    links,
    audience: createAudience(stack, servers.mongo),
    request,
    call,
    async push(to, fields = {}) {
      const body = JSON.stringify({ to, data: { message: 'Hello' }, ...fields });
      return pushIdOf(await call(request('POST', '/push', body)));
    },
    untilIdle: () => until('the stack to be idle', () => isIdle(servers), { everyMs: 100 }),
    async close() {
      links.close();
      await servers.close();
      await stack.stop();
    },
  };
}

/** The id in the answer to `POST /push`. */
export function pushIdOf({ body }: HttpAnswer): string {
  return (JSON.parse(body) as { id: string }).id;
}

async function isIdle({ mongo }: Servers): Promise<boolean> {
  const left = await Promise.all([
    mongo.collection('pushes').findOne({ 'work.state': 'ready', state: 'open' }),
    mongo.collection('pushes').findOne({ 'fan.done': false, state: 'open' }),
    mongo.collection('batches').findOne({ 'work.state': { $in: ['ready', 'waiting'] } }),
  ]);
  return left.every((one) => one === null);
}
