import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createFiguresKeys, FIELDS, MINUTE_MS } from '../../packages/presence/src/figures.ts';
import { connectRedis } from '../../packages/presence/src/redis.ts';
import { waitForText } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { fillPath, type PageIds } from '../support/console/pages.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { registerAndroid, registerIphone } from '../support/providers/devices.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

/** `SCREENSHOTS_FOLDER=$PWD/docs/screenshots npm test -- <this file>` renews those of the documents. */
const FOLDER = process.env.SCREENSHOTS_FOLDER ?? createTemporaryFolder();
const MAX_BYTES = 150 * 1_024;
const REFUSALS = ['BadCollapseId', 'BadTopic'];
const DELIVERED_PUSHES = 25;
const EARLIER_MINUTES = 45;

const PAGES: [name: string, path: string, text: string][] = [
  ['push', '/pushes/$push', 'Errors of providers'],
  ['failures', '/apps/$app/failures', 'BadTopic'],
  ['overview', '/', 'Figures exist since'],
];

let fixture: ConsoleFixture;
let ids: PageIds;
beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  fixture = await openConsole();
  const filled = await fixture.fill();
  for (let n = 0; n < DELIVERED_PUSHES; n += 1) await send(filled.tenant, [filled.ids.token]);
  ids = { ...filled.ids, push: await sendToEachChannel(filled) };
});
afterAll(() => fixture?.close());

/** Makes up the figures of the last minutes, in the form in which the services write them. */
async function addEarlierMinutes(url: string): Promise<void> {
  const redis = await connectRedis({ url });
  const keys = createFiguresKeys(redis);
  const current = Math.floor(Date.now() / MINUTE_MS);
  for (let n = 0; n <= EARLIER_MINUTES; n += 1) {
    const wave = 600 + 200 * Math.sin(n / 6) + 60 * Math.sin(n * 1.7);
    const isOutage = n > 18 && n < 23;
    const counts = {
      [FIELDS.accepted]: wave * 0.4,
      [FIELDS.ended('mqtt', 'delivered')]: wave,
      [FIELDS.ended('apns', 'sent')]: wave * 0.5,
      [FIELDS.ended('fcm', 'sent')]: wave * 0.2,
      [FIELDS.ended('apns', 'failed')]: isOutage ? 90 : 3,
      [FIELDS.failure('rejected-by-provider')]: isOutage ? 90 : 3,
      [FIELDS.latency(25)]: wave * 0.6,
      [FIELDS.latency(50)]: wave * 0.37,
      [FIELDS.latency(100)]: wave * 0.02 + 8 * Math.abs(Math.sin(n)),
      [FIELDS.latency(250)]: isOutage ? 40 : 6,
    };
    const fields = Object.entries(counts).map(
      ([name, count]) => [name, Math.round(count)] as const,
    );
    // The few receipts of this test would be most of a minute.
    const key = keys.minute(current - n);
    const own = (await redis.hkeys(key)).filter((name) => name.startsWith('latency:'));
    if (own.length > 0) await redis.hdel(key, ...own);
    await redis.hset(key, Object.fromEntries(fields));
  }
  await redis.set(keys.since, (current - EARLIER_MINUTES) * MINUTE_MS);
  redis.disconnect();
}

/** Sends a push that is delivered, sent, and refused twice. */
async function sendToEachChannel({
  tenant,
  ids: { token },
}: Awaited<ReturnType<ConsoleFixture['fill']>>): Promise<string> {
  const { sandbox, store } = fixture;
  const phones = [await registerIphone(tenant.dev), await registerAndroid(tenant.dev)];
  for (const refusal of REFUSALS) {
    const iphone = await registerIphone(tenant.dev);
    await sandbox.script('apns', iphone.address, [{ as: refusal }]);
    phones.push(iphone);
  }
  await store.apps.updateSettings(tenant.app, { fcm: 0 });
  const tokens = [token, ...phones.map((phone) => phone.token)];
  const push = await send(tenant, tokens);
  for (const one of tokens) await untilFinal(store, push, one);
  return push.id;
}

test.each(PAGES)('%s', async (name, path, text) => {
  const page = fixture.owner;
  // Shortly before they are shown: the minute that the services write to is no part of the lines.
  if (path === '/') await addEarlierMinutes(fixture.stack.dev.redis);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
  await page.goto(`${fixture.origin}${fillPath(path, ids)}`);
  await waitForText(page, text);
  if (path === '/') await page.waitForSelector('svg[role=img] path');
  const file = join(FOLDER, `${name}.png`) as `${string}.png`;
  await page.screenshot({ path: file });
  expect(statSync(file).size).toBeLessThanOrEqual(MAX_BYTES);
});
