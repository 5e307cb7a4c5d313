import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

/** As deep as 4,096 characters allow. */
const DEPTH = 2_040;
/** Numbers that a parser and a writer of IEEE doubles would change. */
const NUMBERS = [
  ...['9007199254740993', '-123456789012345678901234567890', '1.0', '-0', '-0.0', '1e400'],
  ...['-1E+400', '1e-400', '0.1000000000000000055511151231257827', '100E-2'],
];
/** Keys that JavaScript's objects treat in a way of their own, and one twice. */
const KEYS = ['', '__proto__', 'constructor', '10', '2', 'data', 'b', 'a', 'a'];
/** Needed and needless escapes, lone surrogates, and characters that end a line or mean something elsewhere. */
const ESCAPED = '\\u0041\\/\\b\\u0000\\u00e9\\uD83D\\uDE00\\\\\\"\\ud800x\\uDFFF';
const PLAIN = '\u2028\ufeff\u007f😀{}:[,$ne.%00';

let stack: SharedStack;
let connected: MqttDevice;
let offline: string;
beforeAll(async () => {
  stack = await useSharedStack();
  connected = await newMqttDevice(stack.dev);
  ({ token: offline } = await newMqttDevice(stack.dev));
  await connected.connect();
});
afterAll(() => connected?.disconnect());

const inOneWay = (text: string) => JSON.stringify(JSON.parse(text));

test.each<[what: string, sent: string, delivered?: string]>([
  ['no field', '{}'],
  ['numbers', `{"n":[${NUMBERS}],"m":{"f":${NUMBERS.join(',"f":')}}}`],
  ['keys', `{${KEYS.map((key, at) => `"${key}":{"${key}":[${at},{}]}`)}}`],
  ['escapes', `{"${ESCAPED}":"${ESCAPED}"}`, inOneWay(`{"${ESCAPED}":"${ESCAPED}"}`)],
  ['an escape in the name of a field', '{"d\\u0061ta":[1]}', '{"data":[1]}'],
  ['characters', `{"${PLAIN}":"${PLAIN}"}`],
  ['white space', ' {\n"a" :\t[ 1 , { } ,\r\n [ ] ] , "b": null } ', '{"a":[1,{},[]],"b":null}'],
  ['words', '{"a":[true,false,null],"b":{"c":"true"}}'],
  ['depth', `{"a":${'['.repeat(DEPTH)}1${']'.repeat(DEPTH)}}`],
])(
  '%s: devices, status and device info have the text that was sent',
  async (_what, sent, delivered = sent) => {
    const to = JSON.stringify([connected.token, offline]);
    const before = connected.arrivals.length;
    const { status, json, text } = await stack.api<{ id: string }>(
      ...(['POST', '/push', `{"to":${to},"data":${sent}}`] as const),
    );
    expect(`${status} ${text}`).toMatch(/^200 /);
    await connected.waitFor(before + 1);
    expect(connected.arrivals.slice(before).map(({ payload }) => payload)).toEqual([delivered]);
    expect((await stack.api('GET', `/pushes/${json.id}`)).text).toContain(
      `"payload":${delivered},`,
    );
    const inbox = await until(async () => {
      const { text: info } = await stack.api('GET', `/devices/${offline}`);
      return info.includes(json.id) && info;
    });
    expect(inbox).toContain(`"payload":${delivered},`);
  },
);
