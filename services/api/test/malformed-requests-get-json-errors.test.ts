import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { createBodyReader } from '@carillon/runtime/read-body';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import supertest from 'supertest';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { createRouting } from '../src/http/routing.ts';
import { serve } from '../src/http/server.ts';

const BODY_BYTES = 1_000;

let address: string;
let stop: () => Promise<void>;

beforeAll(async () => {
  const routing = createRouting({
    log: createLogger('edge', 'fatal'),
    metrics: createMetrics(),
    authenticate: async () => ({
      app: { _id: 'a', account: 'b', name: 'n', createdAt: new Date() },
      account: { _id: 'b', name: 'n', plan: 'pro', createdAt: new Date() },
      apiKey: 'k',
    }),
    countRequest: async () => undefined,
    readBody: createBodyReader({ budgetBytes: 1_500 }),
    onUnexpectedError: () => undefined,
  });
  const echo = routing.withApiKey({ maxBodyBytes: BODY_BYTES }, async ({ body }) => body.value);
  const fail = routing.withApiKey({}, async () => {
    throw new Error('a secret of the implementation');
  });
  const clientAddress = routing.withApiKey({}, async ({ address: client }) => ({ client }));
  const server = await serve(
    { host: '127.0.0.1', port: 0 },
    routing,
    [
      (router) =>
        router
          .post('/echo', echo)
          .get('/fail', fail)
          .get('/item/:id', echo)
          .get('/who', clientAddress),
    ],
    { proxyHops: 1 },
  );
  address = `http://127.0.0.1:${server.port}`;
  stop = server.stop;
});
afterAll(() => stop());

async function post(body: string, type = 'application/json') {
  return supertest(address).post('/echo').set('content-type', type).send(body);
}

describe('the HTTP server', () => {
  test('accepts a JSON object, with and without a trailing slash in the path', async () => {
    expect((await post('{"a":[1]}')).body).toEqual({ a: [1] });
    const slashed = await supertest(address).post('/echo/').send({ a: 1 });
    expect(slashed.status).toBe(200);
  });

  test.each([
    [
      'a body above the limit',
      `{"a":"${'x'.repeat(BODY_BYTES)}"}`,
      undefined,
      413,
      'BODY_TOO_LARGE',
    ],
    ['a form', 'a=1', 'application/x-www-form-urlencoded', 415, 'UNSUPPORTED_MEDIA_TYPE'],
    ['text', '{}', 'text/plain', 415, 'UNSUPPORTED_MEDIA_TYPE'],
    ['a type that begins like JSON', '{}', 'application/jsonx', 415, 'UNSUPPORTED_MEDIA_TYPE'],
    ['a type that is none', '{}', 'x', 415, 'UNSUPPORTED_MEDIA_TYPE'],
    ['broken JSON', '{"a":', undefined, 400, 'INVALID_PARAM'],
    ['a byte order mark', '\ufeff{}', undefined, 400, 'INVALID_PARAM'],
  ])('rejects %s', async (_, body, type, status, code) => {
    const response = await post(body, type);
    expect([response.status, response.body.code]).toEqual([status, code]);
    expect(typeof response.body.error).toBe('string');
  });

  test('rejects bytes that are not UTF-8', async () => {
    const response = await fetch(`${address}/echo`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: Uint8Array.of(0x7b, 0xff, 0x7d),
    });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { code: 'INVALID_PARAM' },
    ]);
  });

  test('keeps the connection of a rejected request, whether its body arrives at once or later', async () => {
    const { socket, text } = await openConnection();
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

  test('distinguishes an unknown path from an unknown method', async () => {
    const path = await supertest(address).get('/nothing?api_key=k');
    expect([path.status, path.body.code]).toEqual([404, 'NOT_FOUND']);
    const method = await supertest(address).put('/echo').send({});
    expect([method.status, method.body.code]).toEqual([405, 'METHOD_NOT_ALLOWED']);
  });

  test('rejects a path with an invalid percent escape', async () => {
    const response = await supertest(address).get('/item/%zz');
    expect([response.status, response.body.code]).toEqual([400, 'INVALID_PARAM']);
  });

  test('hides the text of an unexpected error', async () => {
    const response = await supertest(address).get('/fail');
    expect([response.status, response.body.code]).toEqual([500, 'INTERNAL_SERVER_ERROR']);
    expect(response.text).not.toContain('secret');
  });

  test('trusts X-Forwarded-For of as many proxies as configured', async () => {
    const getAs = (forwarded: string) =>
      supertest(address).get('/who').set('x-forwarded-for', forwarded);
    expect((await getAs('203.0.113.7')).body).toEqual({ client: '203.0.113.7' });
    expect((await getAs('10.0.0.1, 203.0.113.7')).body).toEqual({ client: '203.0.113.7' });
  });

  test('rejects HTTP/1.1 without a Host header, unsupported Expect headers and other bytes, in JSON', async () => {
    const withoutHost = await sendRawRequest('GET /who HTTP/1.1\r\nConnection: close\r\n\r\n');
    expect(withoutHost).toMatch(/^HTTP\/1\.1 400 .*"code":"INVALID_PARAM"/s);
    const withExpect = await sendRawRequest(
      'GET /who HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n',
    );
    expect(withExpect).toMatch(/^HTTP\/1\.1 400 .*"code":"INVALID_PARAM"/s);
    const noise = await sendRawRequest('this is no HTTP\r\n\r\n');
    expect(noise).toMatch(/^HTTP\/1\.1 400 .*"code":"INVALID_PARAM"/s);
  });

  test.each([
    // Proxies may use one of them and servers the other.
    ['a length and chunks', 'Content-Length: 4\r\nTransfer-Encoding: chunked'],
    ['two lengths', 'Content-Length: 4\r\nContent-Length: 5'],
    ['a space after the name of a header', 'Transfer-Encoding : chunked'],
  ])('rejects a request with %s, and closes the connection', async (_, headers) => {
    const second = 'GET /who HTTP/1.1\r\nHost: x\r\n\r\n';
    const first = `POST /echo HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n0\r\n\r\n`;
    const response = await sendRawRequest(first + second);
    expect(response).toMatch(/^HTTP\/1\.1 400 .*"code":"INVALID_PARAM"/s);
    expect(response.split('HTTP/1.1 ')).toHaveLength(2);
  });

  test('rejects a compressed body without unpacking it', async () => {
    const response = await fetch(`${address}/echo`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: new Uint8Array(gzipSync(`{"a":"${' '.repeat(1 << 24)}"}`)),
    });
    const { code } = (await response.json()) as { code: string };
    expect([response.status, code]).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE']);
  });

  test('treats an API key of one megabyte as invalid', async () => {
    const response = await sendRawRequest(
      `GET /who?api_key=${'k'.repeat(1 << 20)} HTTP/1.1\r\n\r\n`,
    );
    expect(response).toMatch(/^HTTP\/1\.1 403 .*"code":"INVALID_API_KEY"/s);
  });
});

/** Opens a connection and collects everything that it receives. */
async function openConnection(): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(Number(new URL(address).port), '127.0.0.1');
  socket.on('error', () => undefined);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(socket, 'connect');
  return { socket, text: () => text };
}

/** Writes raw bytes and returns everything that is received. */
async function sendRawRequest(bytes: string): Promise<string> {
  const { socket, text } = await openConnection();
  socket.write(bytes);
  await untilClosed(socket);
  return text();
}
