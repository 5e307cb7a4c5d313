import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { send } from '../support/end-to-end/pushes.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

type Line = Record<string, unknown>;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack?.stop());

const linesOf = (service: string): Line[] =>
  stack
    .readLog(service)
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);
const untilLine = (service: string, fields: Line) =>
  until(() => linesOf(service).find((line) => includes(line, fields)));
const includes = (line: Line, fields: Line) =>
  Object.entries(fields).every(([name, value]) => line[name] === value);

test('by its id, from the request to the outcomes', async () => {
  const { token: offline } = await registerDevice(stack.dev);
  const { token: other } = await registerDevice(stack.dev);
  const { id } = await send(stack, [offline, other]);
  expect(await untilLine('api', { push: id })).toMatchObject({ route: 'POST /push', status: 200 });
  expect(await untilLine('delivery-worker', { push: id, end: 'settled' })).toMatchObject({
    n: 2,
    outcomes: { inbox: 2 },
  });
});

test('a refusal names its parameter and not its value', async () => {
  const body = { to: 'x', data: {}, notification: { badge: 'canary-value' } };
  await stack.api('POST', '/push', body);
  const line = await untilLine('api', { param: 'notification.badge' });
  expect(line).toMatchObject({ status: 400, code: 'INVALID_PARAM' });
  expect(stack.readLog('api')).not.toContain('canary-value');
});

test.each(['api', 'delivery-worker', 'scheduler', 'device-gateway'])(
  'the times of %s are in ISO 8601',
  (service) => {
    const times = linesOf(service).map(({ time }) => time);
    expect(times.length).toBeGreaterThan(0);
    for (const time of times) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  },
);
