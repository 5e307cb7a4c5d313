import { beforeAll, describe, expect, test } from '@jest/globals';
import { registerDevice } from './support/register-device.ts';
import { type SharedStack, useSharedStack } from './support/shared-stack.ts';

const YEAR_SECONDS = 365 * 86_400;
const ACCEPTED = { status: 200, json: { success: true } };
const REFUSED = { status: 400, json: { code: 'INVALID_PARAM' } };
const TOO_LONG = { status: 400, json: { code: 'PAYLOAD_LIMIT_EXCEEDED' } };

let stack: SharedStack;
let token: string;
beforeAll(async () => {
  stack = await useSharedStack();
  ({ token } = await registerDevice(stack.dev));
});

function push(fields: object) {
  return stack.api('POST', '/push', { to: token, data: {}, ...fields });
}

function list(length: number, item: (index: number) => string): string[] {
  return Array.from({ length }, (_, index) => item(index));
}

/** Tokens of which only the first is a device's. */
function tokens(length: number): string[] {
  return [token, ...list(length - 1, (index) => `unknown-${index}`)];
}

describe('a push takes 100,000 tokens', () => {
  test.each(['to', 'tokens', 'registration_ids'])('in "%s"', async (field) => {
    const fields = { to: undefined, [field]: tokens(100_000) };
    const { status, json } = await push(fields);
    expect(status).toBe(200);
    expect(json.info).toMatchObject({ devices: 1 });
    expect((json.info as { failed: string[] }).failed).toHaveLength(99_999);
    expect(await push({ to: undefined, [field]: tokens(100_001) })).toMatchObject(REFUSED);
  });

  test('in "to" and "tokens" together', async () => {
    const [first, ...others] = tokens(100_000);
    expect(await push({ to: [first], tokens: others })).toMatchObject({ status: 200 });
    expect(await push({ to: [first], tokens: [...others, 'one more'] })).toMatchObject(REFUSED);
  });

  test('counted with those that repeat, in one list or in several', async () => {
    const repeated = list(100_000, () => token);
    const accepted = await push({ to: repeated });
    expect(accepted).toMatchObject({ status: 200, json: { info: { devices: 1, failed: [] } } });
    expect(await push({ to: [...repeated, token] })).toMatchObject(REFUSED);
    expect(await push({ to: token, registration_ids: repeated })).toMatchObject(REFUSED);
  });
});

describe('a payload has 4,096 characters as stringified JSON', () => {
  /** Data whose JSON text has so many characters. */
  function data(characters: number, letter = 'x') {
    return { text: letter.repeat(characters - '{"text":""}'.length) };
  }

  test('of one byte', async () => {
    expect(await push({ data: data(4_096) })).toMatchObject(ACCEPTED);
    expect(await push({ data: data(4_097) })).toMatchObject(TOO_LONG);
  });

  test('of three bytes', async () => {
    expect(await push({ data: data(4_096, '日') })).toMatchObject(ACCEPTED);
    expect(await push({ data: data(4_097, '日') })).toMatchObject(TOO_LONG);
  });

  test('however the request is written', async () => {
    const spaces = ' '.repeat(5_000);
    const escapes = '\\u0078'.repeat(4_096 - '{"text":""}'.length);
    const body = (text: string) =>
      `{"to":"${token}",${spaces}"data":{${spaces}"text"${spaces}:"${text}"}}`;
    expect(await stack.api('POST', '/push', body(escapes))).toMatchObject(ACCEPTED);
    expect(await stack.api('POST', '/push', body(`${escapes}x`))).toMatchObject(TOO_LONG);
  });
});

describe('time_to_live', () => {
  test.each([0, 1, YEAR_SECONDS])('%d is accepted', async (time_to_live) => {
    expect(await push({ time_to_live })).toMatchObject(ACCEPTED);
  });

  test.each([YEAR_SECONDS + 1, -1, 1.5, '60', [null], 1e300])('%p is refused', async (wrong) => {
    expect(await push({ time_to_live: wrong })).toMatchObject(REFUSED);
  });
});

describe('schedule', () => {
  const now = () => Math.floor(Date.now() / 1_000);

  /** The same date and time a year later, for a year is not always 365 days. */
  function inAYear(): number {
    const date = new Date();
    return Math.floor(date.setUTCFullYear(date.getUTCFullYear() + 1) / 1_000);
  }

  test('a year ahead is accepted, more is refused', async () => {
    expect(await push({ schedule: inAYear() })).toMatchObject(ACCEPTED);
    // Some seconds for the time that the request takes.
    expect(await push({ schedule: inAYear() + 30 })).toMatchObject(REFUSED);
  });

  test('the next second is accepted, this one and any before are refused', async () => {
    expect(await push({ schedule: now() + 2 })).toMatchObject(ACCEPTED);
    expect(await push({ schedule: now() })).toMatchObject(REFUSED);
    expect(await push({ schedule: now() - YEAR_SECONDS })).toMatchObject(REFUSED);
  });

  test.each([0, -1, '2099-01-01', 1.5, [null]])('%p is refused', async (schedule) => {
    expect(await push({ schedule })).toMatchObject(REFUSED);
  });
});

test('a collapse key has up to 32 characters', async () => {
  expect(await push({ collapse_key: 'k'.repeat(32) })).toMatchObject(ACCEPTED);
  expect(await push({ collapse_key: 'k'.repeat(33) })).toMatchObject(REFUSED);
  expect(await push({ collapse_key: 7 })).toMatchObject(REFUSED);
});

describe('topics', () => {
  const names = (length: number) => list(length, (index) => `topic-${index}`);
  const change = (verb: string, topics: unknown) =>
    stack.api('POST', `/topics/${verb}`, { token, topics });
  const recipients = (length: number) => names(length).map((name) => `/topics/${name}`);

  test.each(['subscribe', 'unsubscribe'])('%s takes 100', async (verb) => {
    expect(await change(verb, names(100))).toMatchObject(ACCEPTED);
    expect(await change(verb, names(101))).toMatchObject(REFUSED);
  });

  test('a push accepts 100', async () => {
    await change('subscribe', names(1));
    expect(await push({ to: recipients(100) })).toMatchObject(ACCEPTED);
    expect(await push({ to: recipients(101) })).toMatchObject(REFUSED);
  });

  test.each(['a', 'A-Z_0.9', '-', '..a', '0', 'x'.repeat(100)])('%p is a name', async (name) => {
    expect(await change('subscribe', [name])).toMatchObject(ACCEPTED);
    expect(await push({ to: `/topics/${name}` })).toMatchObject(ACCEPTED);
    const { json } = await stack.api('GET', `/topics/${name}`);
    expect(json).toEqual({ subscribers: [token] });
  });

  const wrong = ['', 'x'.repeat(101), 'a b', 'a/b', 'a:b', 'ä', 'a\n', '*', 7, null];
  test.each(wrong)('%p is no name', async (name) => {
    expect(await change('subscribe', [name])).toMatchObject(REFUSED);
    expect(await change('subscribe', ['fine', name])).toMatchObject(REFUSED);
    if (typeof name !== 'string') return;
    expect(await push({ to: `/topics/${name}` })).toMatchObject(REFUSED);
  });

  test('a name in other letters is another topic', async () => {
    await change('subscribe', ['Case']);
    expect((await stack.api('GET', '/topics/case')).json).toEqual({ subscribers: [] });
    expect(await push({ to: '/topics/case' })).toMatchObject({ json: { code: 'NO_RECIPIENTS' } });
  });

  test.each([undefined, null, 'news', {}])('%p is no list of topics', async (topics) => {
    expect(await change('subscribe', topics)).toMatchObject(REFUSED);
    expect(await change('unsubscribe', topics)).toMatchObject(REFUSED);
  });
});

describe('presence', () => {
  const presence = (some: unknown) => stack.api('POST', '/devices/presence', { tokens: some });

  test('accepts 1,000 tokens', async () => {
    expect(await presence(tokens(1_000))).toMatchObject({
      status: 200,
      json: { presence: [{ id: token, online: false }] },
    });
    expect(await presence(tokens(1_001))).toMatchObject(REFUSED);
  });

  test.each([undefined, null, 'token', [7], {}])('%p is no list of tokens', async (wrong) => {
    expect(await presence(wrong)).toMatchObject(REFUSED);
  });
});

describe('a body', () => {
  test.each([
    ['/push', 8 * 1_024],
    ['/topics/subscribe', 128],
    ['/topics/unsubscribe', 128],
    ['/devices/presence', 128],
    ['/devices/auth', 16],
    ['/register', 16],
  ])('of %s has up to %d KB', async (path, kilobytes) => {
    const bytes = kilobytes * 1_024;
    const send = (length: number) =>
      stack.api('POST', path, `{"x":"${'x'.repeat(length - '{"x":""}'.length)}"}`);
    expect((await send(bytes)).json).not.toMatchObject({ code: 'BODY_TOO_LARGE' });
    const tooLarge = { status: 413, json: { code: 'BODY_TOO_LARGE' } };
    expect(await send(bytes + 1)).toMatchObject(tooLarge);
  });
});
