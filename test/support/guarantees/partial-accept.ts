import { randomUUID } from 'node:crypto';
import type { PushDocument } from '../../../packages/store/src/documents.ts';
import type { SentPush } from '../faults/pushes.ts';
import type { StackBehindProxy } from '../faults/stack-behind-proxy.ts';
import type { TestMongo } from '../mongo.ts';
import type { HeldBytes } from '../tcp-proxy.ts';
import { until } from '../until.ts';
import { type PlainResponse, requestOnce } from './request-once.ts';
import { whileFrozen } from './while-frozen.ts';

/** How an insert into `batches` begins on the wire (BSON: a string `insert` of 8 bytes). */
const INSERT_OF_BATCHES = '\x02insert\0\x08\0\0\0batches\0';
const RETRY_DELAY_MS = 500;

/** A request to send with an idempotency key, to be made again and again. */
export interface KeyedRequest {
  send(body?: string): Promise<PlainResponse>;
  key: string;
  body: string;
  payload: string;
  devices: number;
}

/** Makes such a request. */
export function createKeyedRequest(
  { stack }: Pick<StackBehindProxy, 'stack'>,
  tokens: readonly string[],
): KeyedRequest {
  const key = randomUUID();
  const data = { mark: randomUUID() };
  const defaultBody = JSON.stringify({ to: tokens, data });
  const url = new URL(`/push?api_key=${stack.dev.apiKey}`, stack.dev.api);
  const send = (body = defaultBody) =>
    requestOnce({ method: 'POST', url, headers: { 'idempotency-key': key }, body });
  return { send, key, body: defaultBody, payload: JSON.stringify(data), devices: tokens.length };
}

/** A push in `accepting` whose owner, the API of index 0, waits for its batches to be written. */
export interface PartialAccept {
  id: string;
  heldWrite: HeldBytes;
  response: Promise<PlainResponse>;
}

/** Makes a request of which only the API of index 0 can be the owner, and stops it before its batches are written. */
export async function acceptPartly(
  { stack, proxy }: StackBehindProxy,
  mongo: TestMongo,
  request: KeyedRequest,
): Promise<PartialAccept> {
  return whileFrozen(stack, [{ service: 'api', index: 1 }], async () => {
    const heldWrite = proxy.holdNext(INSERT_OF_BATCHES);
    const response = request.send();
    await heldWrite.matched;
    const pushes = mongo.db.collection<PushDocument>('pushes');
    const push = await until(() => pushes.findOne({ state: 'accepting' }));
    return { id: push._id, heldWrite, response };
  });
}

/** Repeats a request each half second until it is accepted. */
export async function retryUntilAccepted(
  request: KeyedRequest,
): Promise<{ push: SentPush; tookMs: number; rejections: PlainResponse[] }> {
  const startedAt = performance.now();
  const rejections: PlainResponse[] = [];
  const isAccepted = async () => {
    const response = await request.send();
    if (response.status === 200) return response;
    rejections.push(response);
    return false;
  };
  const { text } = await until(isAccepted, { timeoutMs: 90_000, everyMs: RETRY_DELAY_MS });
  const { id } = JSON.parse(text) as { id: string };
  const push = { id, payload: request.payload, devices: request.devices };
  return { push, tookMs: performance.now() - startedAt, rejections };
}
