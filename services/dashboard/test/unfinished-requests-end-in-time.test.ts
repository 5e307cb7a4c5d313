import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { REQUEST_TIMEOUTS } from '../src/http/server.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const { headersTimeout, requestTimeout, connectionsCheckingInterval } = REQUEST_TIMEOUTS;
/** For a busy machine. */
const MARGIN_MS = 4_000;

let started: ConsoleUnderTest;
let owner: Browser;
beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
});
afterAll(() => started.stop());

/** Sends a text and returns the time until the console closes the connection. */
async function timeUntilClosed(text: string): Promise<number> {
  const { hostname, port } = new URL(started.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined).resume();
  socket.write(text);
  const startedAt = performance.now();
  await untilClosed(socket);
  return performance.now() - startedAt;
}

/** Reads an event stream until `signal` aborts. Returns true if it was open until then. */
async function isOpenUntil(path: string, signal: AbortSignal): Promise<boolean> {
  const cookie = [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const { body } = await fetch(`${started.url}${path}`, { headers: { cookie }, signal });
  try {
    for await (const _ of body ?? []);
  } catch {
    return signal.aborted;
  }
  return false;
}

test('a request ends that is never complete, and nothing else', async () => {
  const { host, origin } = new URL(started.url);
  const head = `POST /api/login HTTP/1.1\r\nHost: ${host}\r\n`;
  const json = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{';
  const closing = new AbortController();
  const stream = isOpenUntil('/api/events', closing.signal);
  const [headMs, bodyMs] = await Promise.all([
    timeUntilClosed(head),
    timeUntilClosed(`${head}Origin: ${origin}\r\n${json}`),
  ]);
  expect(headMs).toBeLessThan(headersTimeout + connectionsCheckingInterval + MARGIN_MS);
  expect(bodyMs).toBeGreaterThan(requestTimeout - connectionsCheckingInterval);
  expect(bodyMs).toBeLessThan(requestTimeout + connectionsCheckingInterval + MARGIN_MS);
  closing.abort();
  expect(await stream).toBe(true);
  const login = { name: 'Owner', password: PASSWORD };
  expect((await createBrowser(started.url).post('/api/login', login)).status).toBe(200);
});
