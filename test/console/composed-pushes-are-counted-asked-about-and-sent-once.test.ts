import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Page } from 'puppeteer-core';
import { formatCount } from '../../services/dashboard/web/src/lib/times.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import {
  click,
  fill,
  readText,
  waitForText,
  waitUntilSettled,
} from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { getPushStatus } from '../support/end-to-end/pushes.ts';
import { createTopicCalls } from '../support/guarantees/topic-calls.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { findViolations } from '../support/web-push/accessibility.ts';

const SENT = 'One device gets the push.';
const NO_TEST_DEVICE = 'This app has no test device of yours that is registered.';
/** Devices to which a push is sent without a question. */
const UNASKED = 1_000;

interface StoredPush {
  _id: string;
  app: string;
}

let fixture: ConsoleFixture;
let page: Page;
let tenant: TestTenant;
let mongo: TestMongo;
let token: string;
let before: number;
beforeAll(async () => {
  fixture = await openConsole();
  page = fixture.owner;
  tenant = await fixture.tenant();
  mongo = await openMongo(tenant.dev);
  ({ token } = await registerDevice(tenant.dev));
  await createTopicCalls(() => tenant).subscribe(token, ['news', 'sports']);
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});
beforeEach(async () => {
  before = await countPushes();
});

const pushes = () => mongo.db.collection<StoredPush>('pushes');
const countPushes = () => pushes().countDocuments({ app: tenant.app });
const countNew = async () => (await countPushes()) - before;

/** Returns the id of the push of the page's link. */
const readSentId = () =>
  page.$eval('[role=status] a', (link) => link.getAttribute('href')?.split('/').at(-1) ?? '');

/** Waits until the page links to another push than the last one. Returns its id. */
async function waitForSentId(last: string): Promise<string> {
  const found = `document.querySelector('[role=status] a')?.getAttribute('href')`;
  await page.waitForFunction(`${found} && ${found} !== '/pushes/${last}'`);
  return readSentId();
}

async function compose(to: string): Promise<void> {
  await page.bringToFront();
  await page.goto(`${fixture.origin}/apps/${tenant.app}/compose?to=${encodeURIComponent(to)}`);
  await waitUntilSettled(page);
}

async function closeDialog(): Promise<void> {
  await click(page, 'Cancel');
  await page.waitForFunction("document.querySelector('[role=dialog]') === null");
}

const readDialog = () => page.$eval('[role=dialog]', ({ textContent }) => textContent ?? '');

/** Clicks a button twice before the page can react to the first click. */
const clickTwice = (name: string) =>
  page.evaluate(`(() => {
    const buttons = [...document.querySelectorAll('button')];
    const button = buttons.findLast(({ innerText }) => innerText === ${JSON.stringify(name)});
    button.click();
    button.click();
  })()`);

test('the page shows the number of devices, and names topics and tokens that reach none', async () => {
  await compose(token);
  await waitForText(page, 'Goes to 1 device now.');
  await compose('/topics/news /topics/sports');
  await waitForText(page, 'Goes to at most 2 devices now.');
  await compose(`${token} /topics/none abc`);
  await waitForText(page, 'Goes to 1 device now. Reaches no device: /topics/none, abc.');
  expect(await findViolations(page)).toEqual([]);
  await click(page, 'Send');
  await waitForText(page, 'Send to 1 device?');
  expect(await readDialog()).toContain('Reaches no device: /topics/none, abc.');
  await closeDialog();
  await compose('/topics/none');
  await click(page, 'Send');
  await waitForText(page, 'No device would get this push. Reaches no device: /topics/none.');
  expect(await countNew()).toBe(0);
});

test('a push to a topic is sent once, after a question that names app, topic and number', async () => {
  await compose('/topics/news');
  await click(page, 'Send');
  await waitForText(page, 'Send to 1 device?');
  expect(await readDialog()).toContain('App: Test. Recipients: /topics/news.');
  expect(await findViolations(page)).toEqual([]);
  await closeDialog();
  expect(await countNew()).toBe(0);
  await click(page, 'Send');
  await waitForText(page, 'Send to 1 device?');
  await clickTwice('Send it');
  await waitForText(page, SENT);
  expect(await countNew()).toBe(1);
});

test(`a push to more than ${UNASKED} devices is sent after a question, one to ${UNASKED} at once`, async () => {
  const devices = mongo.db.collection<{ _id: string }>('devices');
  const { authDigest: _, ...one } = (await devices.findOne({ _id: token })) as {
    _id: string;
    authDigest: string;
  };
  const others = Array.from({ length: UNASKED }, (_unused, n) => `copy${n}`);
  await devices.insertMany(others.map((_id) => ({ ...one, _id })));
  await compose([token, ...others].join(' '));
  await click(page, 'Send');
  await waitForText(page, `Send to ${formatCount(UNASKED + 1)} devices?`);
  expect(await readDialog()).toContain(`Recipients: ${formatCount(UNASKED + 1)} device tokens.`);
  await closeDialog();
  await compose(others.join(' '));
  await click(page, 'Send');
  await waitForText(page, `${formatCount(UNASKED)} devices get the push.`);
  expect(await countNew()).toBe(1);
});

test('a double click, and a retry after a lost answer, send once; a changed push and the next one are new', async () => {
  await compose(token);
  await clickTwice('Send');
  await waitForText(page, SENT);
  expect(await countNew()).toBe(1);

  await compose(token);
  await page.evaluate(LOSE_ONE_ANSWER);
  await click(page, 'Send');
  await waitForText(page, 'No connection');
  expect(await countNew()).toBe(2);
  await click(page, 'Send');
  await waitForText(page, SENT);
  expect(await countNew()).toBe(2);
  const first = await readSentId();
  await fill(page, 'Payload', '{"message":"Changed"}');
  let last = first;
  for (const count of [3, 4]) {
    await click(page, 'Send');
    last = await waitForSentId(last);
    expect(await countNew()).toBe(count);
  }
  expect(await pushes().countDocuments({ _id: first })).toBe(1);
});

test('a push is sent to the test device alone, which is chosen on its page, without a question', async () => {
  const sendTest = async () => {
    await compose('/topics/news');
    await click(page, 'Send to my test device');
  };
  await sendTest();
  await waitForText(page, NO_TEST_DEVICE);
  const mine = await registerDevice(tenant.dev);
  await page.goto(`${fixture.origin}/devices/${mine.token}`);
  await click(page, 'Use as my test device');
  await waitForText(page, 'It is your test device of this app, in this browser.');
  await waitUntilSettled(page);
  expect(await findViolations(page)).toEqual([]);
  await sendTest();
  await waitForText(page, SENT);
  expect(await readText(page)).not.toContain('Send to 1 device?');
  const { api } = tenant;
  const status = await getPushStatus({ api }, await readSentId());
  expect(status).toMatchObject({ pending_devices: [mine.token] });
  expect(await countNew()).toBe(1);
  await api('DELETE', `/devices/${mine.token}`);
  await sendTest();
  await waitForText(page, NO_TEST_DEVICE);
  expect(await countNew()).toBe(1);
});

// A script of the page is a text: it uses names of browsers that this code does not have.
const LOSE_ONE_ANSWER = `(() => {
  const { fetch } = window;
  window.fetch = async (path, init) => {
    const response = await fetch(path, init);
    if (!String(path).endsWith('/pushes')) return response;
    window.fetch = fetch;
    throw new TypeError('the answer is lost');
  };
})()`;
