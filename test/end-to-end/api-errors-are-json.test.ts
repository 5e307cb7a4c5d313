import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readLogLines } from '../support/end-to-end/logs.ts';
import {
  type RawRequest,
  sendRawBytes,
  sendRawRequest,
} from '../support/end-to-end/raw-request.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { registerDevice } from '../support/register-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** As long and of the letters that a real key has. */
const CANARY = `canary${'0123456789abcdef'.repeat(4)}`.slice(0, 64);
const JSON_TYPE = { 'content-type': 'application/json' };
/** A placeholder in a body. */
const VALUE = 'value';
const VALUE_TEXT = '"value"';
const MEGABYTE = 1_048_576;
const ENDPOINTS = [
  ['POST', '/push'],
  ['GET', '/pushes/000000000000000000000000'],
  ['DELETE', '/pushes/000000000000000000000000'],
  ['GET', '/devices/0123456789abcdef012345'],
  ['POST', '/devices/presence'],
  ['POST', '/topics/subscribe'],
  ['POST', '/topics/unsubscribe'],
  ['GET', '/topics'],
  ['GET', '/topics/news'],
] as const;

let stack: Stack;
let token: string;
beforeAll(async () => {
  stack = await useKillableStack({ restartsApis: true });
  ({ token } = await registerDevice(stack.dev));
});
afterAll(() => stack?.stop());

describe('the key', () => {
  test.each(ENDPOINTS)('%s %s is refused without a key or with a wrong one', async (...to) => {
    const [method, path] = to;
    const refusal = { status: 403, json: { code: 'INVALID_API_KEY', error: expect.any(String) } };
    expect(await sendRequest({ method, path })).toMatchObject(refusal);
    expect(await sendRequest({ method, path: `${path}?api_key=` })).toMatchObject(refusal);
    expect(await sendRequest({ method, path: `${path}?api_key=${CANARY}` })).toMatchObject(refusal);
    const headers = { authorization: `Bearer ${CANARY}` };
    expect(await sendRequest({ method, path, headers })).toMatchObject(refusal);
  });

  test('is read from the query and from the header Authorization', async () => {
    expect(await sendRequest({ method: 'GET', path: withKey('/topics') })).toMatchObject({
      status: 200,
    });
    const headers = { authorization: `Bearer ${stack.dev.apiKey}` };
    expect(await sendRequest({ method: 'GET', path: '/topics', headers })).toMatchObject({
      status: 200,
    });
    expect(await sendRequest({ method: 'GET', path: '/topics/', headers })).toMatchObject({
      status: 200,
    });
  });

  test('is checked before the body', async () => {
    const headers = { ...JSON_TYPE, 'content-length': 100 * MEGABYTE };
    const path = `/push?api_key=${CANARY}`;
    expect(await sendRequest({ path, headers, keepBodyBack: true })).toMatchObject({ status: 403 });
  });
});

describe('a body', () => {
  const text = () => JSON.stringify({ to: token, data: { a: VALUE } });

  test.each<[string, () => string | Buffer]>([
    ['of no bytes', () => ''],
    ['of white space', () => ' \n'],
    ['cut off', () => text().slice(0, -1)],
    ['with something behind it', () => `${text()}}`],
    ['with single quotes', () => text().replaceAll('"', "'")],
    ['with a comment', () => `/**/${text()}`],
    ['with a bare control character', () => text().replace('"a"', '"\n"')],
    ['with NaN', () => text().replace(VALUE_TEXT, 'NaN')],
    ['with a leading zero', () => text().replace(VALUE_TEXT, '01')],
    ['that is an array', () => '[]'],
    ['that is null', () => 'null'],
    ['that is a string', () => '"x"'],
    ['with a byte order mark', () => `\ufeff${text()}`],
    ['in UTF-16', () => Buffer.from(`\ufeff${text()}`, 'utf16le')],
    ['in UTF-16 without a mark', () => Buffer.from(text(), 'utf16le')],
    ['that is not UTF-8', () => Buffer.from(text().replace('"a"', '"\xe9"'), 'latin1')],
    ['nested too deep in its payload', () => text().replace(VALUE_TEXT, nested(100_000))],
    ['nested too deep in an unknown field', () => `{"x":${nested(100_000)}}`],
    ['never closed', () => '['.repeat(1_000_000)],
  ])('%s gets 400 INVALID_PARAM', async (_what, body) => {
    const response = await sendRequest({
      path: withKey('/push'),
      headers: JSON_TYPE,
      body: body(),
    });
    expect(response).toMatchObject({ status: 400, json: { code: 'INVALID_PARAM' } });
    expect(response.json.error).toEqual(expect.any(String));
  });

  test('of the type application/json with a charset is accepted', async () => {
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' };
    const response = await sendRequest({ path: withKey('/push'), headers, body: text() });
    expect(response).toMatchObject({ status: 200, json: { success: true } });
  });

  test('of any size with a wrong key gets the error of the key', async () => {
    const body = JSON.stringify({ to: token, data: { a: 'x'.repeat(7 * MEGABYTE) } });
    const response = await sendRequest({
      path: `/push?api_key=${CANARY}`,
      headers: JSON_TYPE,
      body,
    });
    expect(response).toMatchObject({ status: 403, json: { code: 'INVALID_API_KEY' } });
  });
});

test('invalid bytes after a push do not replace its response', async () => {
  const body = JSON.stringify({ to: token, data: { a: 1 } });
  const head = `POST ${withKey('/push')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json`;
  const push = `${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const heard = await sendRawBytes(stack.dev.api, `${push}this is no HTTP\r\n\r\n`);
  // A cut connection leaves the outcome unknown (guarantee G2); a refusal would be false.
  expect(heard.slice(0, 13)).toMatch(/^$|^HTTP\/1\.1 200 /);
});

test('no log line of any process holds a key, right or wrong', async () => {
  const keys = [CANARY, stack.dev.apiKey];
  const earlier = new Set(readLogLines(stack.home));
  await whileFrozen(stack, [{ service: 'mongodb' }], () =>
    Promise.all(keys.flatMap((key) => askInManyWays(key))),
  );
  // Each of both processes logs a later request.
  const last: string[] = [];
  const lines = await until(async () => {
    const { requestId = 'none' } = await sendRequest({ method: 'GET', path: withKey('/last') });
    last.push(requestId);
    const all = readLogLines(stack.home);
    const isLogged = (file: string) =>
      all.some((line) => line.startsWith(file) && last.some((id) => line.includes(id)));
    return isLogged('api-0.log: ') && isLogged('api-1.log: ') && all;
  });
  const secretPattern = new RegExp(`${keys.join('|')}|api_key=`);
  expect(lines.filter((line) => secretPattern.test(line))).toEqual([]);
  const added = lines.filter((line) => !earlier.has(line));
  expect(added.find((line) => /^api-[01].log.*"level":50/.test(line))).toBeDefined();
});

/** Requests that succeed, are refused, and fail while MongoDB is frozen. */
function askInManyWays(key: string) {
  const headers = { ...JSON_TYPE, authorization: `Bearer ${key}` };
  const paths = ['/push', '/nothing', '/pushes/%zz', '/topics', `/pushes/${key}`];
  return paths.flatMap((path) => [
    sendRequest({ path: `${path}?api_key=${key}`, headers, body: '{}' }),
    sendRequest({ method: 'GET', path: `${path}?api_key=${key}&more=x` }),
  ]);
}

function sendRequest(request: RawRequest) {
  return sendRawRequest(stack.dev.api, request);
}

function withKey(path: string): string {
  return `${path}?api_key=${stack.dev.apiKey}`;
}

function nested(depth: number): string {
  return `${'['.repeat(depth)}${']'.repeat(depth)}`;
}
