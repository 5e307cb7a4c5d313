import { gzipSync } from 'node:zlib';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import supertest from 'supertest';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { type Edge, openConnection, startEdge } from './edge.ts';

const BODY_BYTES = 1_000;
const TOO_LARGE = `{"a":"${'x'.repeat(BODY_BYTES)}"}`;
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const JSONX = { 'content-type': 'application/jsonx' };

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge(
    ({ withApiKey }) => {
      const echo = withApiKey({ maxBodyBytes: BODY_BYTES }, async ({ body }) => body.value);
      const fail = withApiKey({}, () =>
        Promise.reject(new Error('a secret of the implementation')),
      );
      const who = withApiKey({}, async ({ address }) => ({ client: address }));
      return (router) =>
        router.post('/echo', echo).get('/fail', fail).get('/item/:id', echo).get('/who', who);
    },
    { readBody: createBodyReader({ budgetBytes: 1_500 }) },
    { proxyHops: 1 },
  );
});
afterAll(() => edge.stop());

const post = (body: string | Uint8Array<ArrayBuffer>, headers = {}) =>
  fetch(`${edge.url}/echo`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });

/** Writes raw bytes and returns everything that is received. */
async function sendRaw(bytes: string): Promise<string> {
  const { socket, text } = await openConnection(edge);
  socket.write(bytes);
  await untilClosed(socket);
  return text();
}

test('a JSON object is accepted, with and without a trailing slash in the path', async () => {
  expect(await (await post('{"a":[1]}')).json()).toEqual({ a: [1] });
  expect((await supertest(edge.url).post('/echo/').send({ a: 1 })).status).toBe(200);
});

test.each<[string, string | Uint8Array<ArrayBuffer>, object, number, string]>([
  ['above the limit', TOO_LARGE, {}, 413, 'BODY_TOO_LARGE'],
  ['that is a form', 'a=1', FORM, 415, 'UNSUPPORTED_MEDIA_TYPE'],
  ['that is text', '{}', { 'content-type': 'text/plain' }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
  ['of a type that begins like JSON', '{}', JSONX, 415, 'UNSUPPORTED_MEDIA_TYPE'],
  ['of a type that is none', '{}', { 'content-type': 'x' }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
  // Without unpacking it.
  [
    'that is compressed',
    new Uint8Array(gzipSync(`{"a":"${' '.repeat(1 << 24)}"}`)),
    { 'content-encoding': 'gzip' },
    415,
    'UNSUPPORTED_MEDIA_TYPE',
  ],
  ['of broken JSON', '{"a":', {}, 400, 'INVALID_PARAM'],
  ['with a byte order mark', '\ufeff{}', {}, 400, 'INVALID_PARAM'],
  ['that is not UTF-8', Uint8Array.of(0x7b, 0xff, 0x7d), {}, 400, 'INVALID_PARAM'],
])('a body %s is rejected', async (_, body, headers, status, code) => {
  const response = await post(body, headers);
  expect([response.status, await response.json()]).toEqual([
    status,
    { code, error: expect.any(String) },
  ]);
});

test('the connection of a rejected request stays, whether its body arrives at once or later', async () => {
  const { socket, text } = await openConnection(edge);
  const head = 'POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n';
  const countResponses = () => text().split('HTTP/1.1 400 ').length - 1;
  for (let sent = 1; sent <= 3; sent += 1) {
    socket.write(`${head}\r\n{"a":`);
    await until(() => countResponses() === 2 * sent - 1);
    socket.write(`${head}Expect: 100-continue\r\n\r\n`);
    await until(() => text().endsWith('HTTP/1.1 100 Continue\r\n\r\n'));
    socket.write('{"a":');
    await until(() => countResponses() === 2 * sent);
  }
  socket.write(`${head}\r\nutf-\xff`, 'latin1');
  await until(() => countResponses() === 7);
  expect(text()).not.toMatch(/connection: close/i);
  socket.destroy();
});

test.each([
  ['an unknown path', 'GET', '/nothing?api_key=k', 404, 'NOT_FOUND'],
  ['an unknown method', 'PUT', '/echo', 405, 'METHOD_NOT_ALLOWED'],
  ['an invalid percent escape', 'GET', '/item/%zz', 400, 'INVALID_PARAM'],
  ['an unexpected error, whose text is hidden', 'GET', '/fail', 500, 'INTERNAL_SERVER_ERROR'],
])('%s gets an error of its own', async (_, method, path, status, code) => {
  const response = await fetch(`${edge.url}${path}`, { method });
  const text = await response.text();
  expect([response.status, JSON.parse(text).code]).toEqual([status, code]);
  expect(text).not.toContain('secret');
});

test('X-Forwarded-For is trusted of as many proxies as configured', async () => {
  for (const forwarded of ['203.0.113.7', '10.0.0.1, 203.0.113.7']) {
    const { body } = await supertest(edge.url).get('/who').set('x-forwarded-for', forwarded);
    expect(body).toEqual({ client: '203.0.113.7' });
  }
});

const SECOND = 'GET /who HTTP/1.1\r\nHost: x\r\n\r\n';
const withHeaders = (headers: string) =>
  `POST /echo HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n0\r\n\r\n${SECOND}`;

test.each([
  ['no Host header', 'GET /who HTTP/1.1\r\nConnection: close\r\n\r\n'],
  ['an unsupported Expect', 'GET /who HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n'],
  ['bytes that are no HTTP', 'this is no HTTP\r\n\r\n'],
  // Proxies may use one of them and servers the other.
  ['a length and chunks', withHeaders('Content-Length: 4\r\nTransfer-Encoding: chunked')],
  ['two lengths', withHeaders('Content-Length: 4\r\nContent-Length: 5')],
  ['a space after the name of a header', withHeaders('Transfer-Encoding : chunked')],
])('a request with %s is rejected in JSON, and closes the connection', async (_, bytes) => {
  const response = await sendRaw(bytes);
  expect(response).toMatch(/^HTTP\/1\.1 400 .*"code":"INVALID_PARAM"/s);
  expect(response.split('HTTP/1.1 ')).toHaveLength(2);
});

test('an API key of one megabyte is invalid', async () => {
  const response = await sendRaw(`GET /who?api_key=${'k'.repeat(1 << 20)} HTTP/1.1\r\n\r\n`);
  expect(response).toMatch(/^HTTP\/1\.1 403 .*"code":"INVALID_API_KEY"/s);
});
