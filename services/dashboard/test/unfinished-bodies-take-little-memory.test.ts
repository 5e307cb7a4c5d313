import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  inviteBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const KB = 1_024;
const MB = 1_024 * KB;
const CONNECTIONS = 700;
const LARGE = Buffer.alloc(250 * KB, ' ');

let started: ConsoleUnderTest;
let owner: Browser;
let app: string;
let sockets: Socket[] = [];
let before: number;
beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
  const account = (await owner.post('/api/accounts', { name: 'one' })).body.id;
  app = (await owner.post('/api/apps', { account, name: 'app' })).body.id;
  await logInAndSave();
  before = measureHeldBytes();
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await until(() => sockets.every(({ closed }) => closed));
  sockets = [];
});
afterAll(() => started.stop());

/** Opens requests whose bodies lack their last byte. @param headers lines that end with CRLF */
async function openUnfinished(path: string, headers: string, body: Buffer): Promise<void> {
  const { hostname, port, host, origin } = new URL(started.url);
  const head = `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\nContent-Type: application/json\r\n${headers}\r\n`;
  for (let n = 0; n < CONNECTIONS; n += 1) {
    const socket = connect(Number(port), hostname);
    // The console may close it while it is written.
    socket.on('error', () => undefined).resume();
    socket.write(head);
    socket.write(body);
    sockets.push(socket);
  }
  await until(() => sockets.every(({ bytesWritten, closed }) => closed || bytesWritten > 0));
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Returns the bytes of objects and buffers that are still referenced, those of this test's own sockets included. */
function measureHeldBytes(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** An operator logs in and changes an app. @param padding makes the body as long as an upload */
async function logInAndSave(padding = ''): Promise<void> {
  const browser = createBrowser(started.url);
  const login = await browser.post('/api/login', { name: 'Owner', password: PASSWORD });
  expect(login.status).toBe(200);
  const change = { payloadLimit: 8_192, padding };
  expect((await browser.put(`/api/apps/${app}`, change)).status).toBe(200);
}

const CHUNK = Buffer.concat([Buffer.from(`${(LARGE.length + 1).toString(16)}\r\n`), LARGE]);

test.each([
  ['large, of a length that is announced', `Content-Length: ${LARGE.length + 1}\r\n`, LARGE],
  ['large, in chunks', 'Transfer-Encoding: chunked\r\n', CHUNK],
  ['as large as they may be', 'Content-Length: 2048\r\n', LARGE.subarray(0, 2_047)],
])('without a session, 700 unfinished bodies: %s', async (_, headers, body) => {
  await openUnfinished('/api/login', headers, body);
  await logInAndSave();
  // The connections themselves take some 20 KB each, with both ends in this process.
  await until(() => measureHeldBytes() - before < 32 * MB);
});

test('with a session, 700 unfinished bodies of one operator', async () => {
  const admin = await inviteBrowser(owner, started.url, { name: 'admin', role: 'admin' });
  const { csrf } = (await admin.get('/api/session')).body;
  const cookie = [...admin.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const headers = `Cookie: ${cookie}\r\nX-CSRF-Token: ${csrf}\r\nContent-Length: ${LARGE.length + 1}\r\n`;
  await openUnfinished('/api/apps', headers, LARGE);
  // Those that are one too many are refused.
  await until(() => sockets.some(({ closed }) => closed));
  // In several pieces, as an upload arrives: a body that arrives at once needs no memory of the budget.
  await logInAndSave('x'.repeat(200_000));
  // What arrives at once waits in each connection, besides the memory for bodies.
  await until(() => measureHeldBytes() - before < 100 * MB);
  await logInAndSave();
}, 300_000);

test('a body of an open route has at most 2 KB', async () => {
  const login = (password: string) =>
    createBrowser(started.url).post('/api/login', { name: 'Owner', password });
  // Each character takes three bytes.
  expect((await login('€'.repeat(256))).status).toBe(401);
  const tooLarge = { status: 413, body: { code: 'TOO_LARGE' } };
  expect(await login('x'.repeat(2_048))).toMatchObject(tooLarge);
});

test('a compressed body is refused', async () => {
  const response = await fetch(`${started.url}/api/login`, {
    method: 'POST',
    headers: {
      ...{ origin: started.url, 'content-type': 'application/json', 'content-encoding': 'gzip' },
    },
    body: gzipSync(JSON.stringify({ name: 'Owner', password: PASSWORD })),
  });
  expect(response.status).toBe(400);
});
