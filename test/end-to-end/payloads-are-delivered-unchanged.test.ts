import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { jsonObjectArbitrary } from '../support/end-to-end/json-object-arbitrary.ts';
import { jsonTokens, tokensOfElements, tokensOfMember } from '../support/end-to-end/json-tokens.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const LANES = 16;
/** Times 16 lanes: more than 300 payloads. */
const RUNS = 20;
const ALL_RUNS_MS = 120_000;

/** Two devices that get the same pushes: one takes them at once, one leaves them in its inbox. */
interface Lane {
  connected: MqttDevice;
  offline: string;
}

let stack: SharedStack;
let lanes: Lane[];
beforeAll(async () => {
  stack = await useSharedStack();
  lanes = await Promise.all(Array.from({ length: LANES }, openLane));
});
afterAll(async () => {
  await Promise.all((lanes ?? []).map(({ connected }) => connected.disconnect()));
});

test(
  'any JSON object reaches devices, status and device info as the value that was sent',
  async () => {
    const payloads = fc.array(jsonObjectArbitrary, { minLength: LANES, maxLength: LANES });
    const holds = fc.asyncProperty(payloads, async (texts) => {
      // All lanes come to their end, so that none is still busy when the next try begins.
      const ends = texts.map((text, at) => passesThrough(lanes[at] as Lane, text));
      const failed = (await Promise.allSettled(ends)).find(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
    });
    await fc.assert(holds, { numRuns: RUNS, endOnFailure: true });
  },
  ALL_RUNS_MS,
);

test('a payload as deep as 4,096 characters allow is accepted', async () => {
  const depth = 2_040;
  await passesThrough(lanes[0] as Lane, `{"a":${'['.repeat(depth)}1${']'.repeat(depth)}}`);
});

async function openLane(): Promise<Lane> {
  const [connected, { token: offline }] = await Promise.all([
    newMqttDevice(stack.dev),
    newMqttDevice(stack.dev),
  ]);
  await connected.connect();
  return { connected, offline };
}

function post(lane: Lane, payload: string) {
  const to = JSON.stringify([lane.connected.token, lane.offline]);
  return stack.api<{ id: string }>('POST', '/push', `{"to":${to},"data":${payload}}`);
}

/** Sends a payload's text and compares the payloads at the three ends, token by token. */
async function passesThrough(lane: Lane, payload: string): Promise<void> {
  const { arrivals } = lane.connected;
  const before = arrivals.length;
  const { status, json, text } = await post(lane, payload);
  expect(`${status} ${text}`).toMatch(/^200 /);
  const sent = jsonTokens(payload);
  await lane.connected.waitFor(before + 1);
  expect(jsonTokens(arrivals.at(-1)?.payload ?? '')).toEqual(sent);
  expect(arrivals).toHaveLength(before + 1);
  expect(await payloadInStatus(json.id)).toEqual(sent);
  const inInbox = await until(() => payloadInInbox(lane.offline, json.id));
  expect(inInbox).toEqual(sent);
}

async function payloadInStatus(id: string): Promise<string[]> {
  const { text } = await stack.api('GET', `/pushes/${id}`);
  return tokensOfMember(tokensOfMember(jsonTokens(text), 'push'), 'payload');
}

async function payloadInInbox(token: string, id: string): Promise<string[] | undefined> {
  const { text } = await stack.api('GET', `/devices/${token}`);
  const pending = tokensOfElements(tokensOfMember(jsonTokens(text), 'pending_notifications'));
  const entry = pending.find((one) => tokensOfMember(one, 'id')[0] === JSON.stringify(id));
  return entry && tokensOfMember(entry, 'payload');
}
