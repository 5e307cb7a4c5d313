import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pushOptions } from '../../packages/core/src/push-options.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { type ProviderDevice, registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { until } from '../support/until.ts';

/** Each process of the stack loads it first: the option that a developer adds. */
const ADDED_OPTION = new URL('../support/providers/with-an-added-option.ts', import.meta.url);
const PER_SECOND = 500;
const IPHONES = 20;
const ARRIVED = { timeoutMs: 60_000, everyMs: 200, what: 'the push at its iPhone' };

let fixture: ProviderFixture;
let tenant: TestTenant;
let iphones: ProviderDevice[];
beforeAll(async () => {
  fixture = await openProviderFixture({ env: { NODE_OPTIONS: `--import ${ADDED_OPTION.href}` } });
  tenant = await fixture.tenant();
  iphones = await Promise.all(Array.from({ length: IPHONES }, () => registerIphone(tenant.dev)));
});
afterAll(() => fixture?.close());

/** All options of a push, with values that tell it from others. */
const optionsOf = (mark: string) => ({
  added_option: mark,
  content_available: true,
  mutable_content: true,
  notification: { title: mark, body: `body ${mark}`, sound: `${mark}.caf`, thread_id: mark },
  collapse_key: mark,
  priority: 'normal',
  apns: {
    payload: { aps: { alert: { subtitle: mark } }, mark },
    headers: { 'apns-expiration': 9 },
  },
  // Those of other channels change nothing for an iPhone.
  fcm: { data: { mark } },
  web_push: { payload: { mark } },
});

/** What they are for an iPhone. */
const expectedOf = (mark: string) => ({
  aps: {
    alert: { title: mark, body: `body ${mark}`, subtitle: mark },
    ...{ sound: `${mark}.caf`, 'thread-id': mark },
    ...{ 'content-available': 1, 'mutable-content': 1, 'added-option': mark },
  },
  ...{ collapseId: mark, priority: '5', expiration: '9', mark },
});

const sendTo = (n: number, mark: string) =>
  send(tenant, (iphones[n % IPHONES] as ProviderDevice).token, optionsOf(mark));

async function receive({ id }: Sent) {
  const [request] = await until(async () => {
    const requests = await fixture.sandbox.received(id);
    return requests.length > 0 && requests;
  }, ARRIVED);
  const { headers = {}, payload } = request ?? {};
  return {
    ...{ aps: payload?.aps, mark: payload?.mark, collapseId: headers['apns-collapse-id'] },
    ...{ priority: headers['apns-priority'], expiration: headers['apns-expiration'] },
  };
}

test('all of the table, and an added one', () => {
  const { added_option: _added, ...options } = optionsOf('');
  expect(Object.keys(options).sort()).toEqual(Object.keys(pushOptions).sort());
});

test('of a push alone', async () => {
  expect(await receive(await sendTo(0, 'alone'))).toEqual(expectedOf('alone'));
});

test('of hundreds a second', async () => {
  const sending: Promise<Sent>[] = [];
  const beganAt = performance.now();
  while (sending.length < PER_SECOND) {
    const due = Math.ceil(((performance.now() - beganAt) * PER_SECOND) / 1_000);
    while (sending.length < Math.min(due, PER_SECOND)) {
      sending.push(sendTo(sending.length, `n${sending.length}`));
    }
    await sleep(1);
  }
  const pushes = await Promise.all(sending);
  const received = [];
  for (const push of pushes) received.push(await receive(push));
  expect(received).toEqual(pushes.map((_, n) => expectedOf(`n${n}`)));
});
