import { randomBytes } from 'node:crypto';
import { connect } from 'node:http2';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { openSandbox } from '../support/providers/sandbox.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { readDev } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';
import {
  findBrokenNames,
  findViolations,
  horizontalOverflow,
  openView,
  PAGE_VIEWS,
} from '../support/web-push/accessibility.ts';
import { openChromiumWithPush } from '../support/web-push/browsers.ts';

let stack: SharedStack;
let browser: Browser;
beforeAll(async () => {
  stack = await useSharedStack();
  browser = await openChromiumWithPush();
});
afterAll(() => browser?.close());

const PAGES = {
  'the reference': () => `${stack.dev.api}/docs`,
  'the page of the sandbox': () => `${stack.dev.sandbox}/`,
  'the demonstration of Web Push': () => `${stack.dev.sandbox}/demo/`,
};

describe.each(Object.entries(PAGES))('%s', (_name, url) => {
  test.each(PAGE_VIEWS)(
    'is accessible, fits into $width pixels and breaks no word of code, $scheme',
    async (view) => {
      const page = await openView(browser, url(), view);
      expect(await findViolations(page)).toEqual([]);
      expect(await findBrokenNames(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
      await page.close();
    },
  );
});

test("the sandbox's page shows each request as its provider got it, and what is wrong with it", async () => {
  const sandbox = openSandbox(stack.dev.sandbox);
  const { ca, apns, fcm } = await sandbox.credentials();
  const token = randomBytes(32).toString('hex');
  const page = await openView(browser, `${stack.dev.sandbox}/`, { width: 390, scheme: 'light' });
  await page.waitForSelector('#state.live');
  await post(`https://${apns.host}:${apns.port}/3/device/${token}`, {
    ca,
    headers: { 'apns-topic': 'a.b', 'apns-push-type': 'voip', 'apns-priority': '10' },
    body: '{"aps":{"badge":12345678901234567890}}',
  });
  await post(`https://${fcm.host}:${fcm.port}/v1/projects/a/messages:send`, {
    ca,
    headers: {},
    body: `{"message":{"token":"${token}","android":{"notification":{"tag":"t"}}}}`,
  });
  const readItems = () =>
    page.$$eval('#entries li', (items) => items.map(({ textContent }) => textContent ?? ''));
  const listShown = async () => (await readItems()).filter((text) => text.includes(token));
  await until(async () => (await listShown()).length === 2, { what: 'both requests' });
  const untilRead = await listShown();
  await page.reload();
  await until(async () => (await listShown()).length === 2, { what: 'both after a reload' });
  expect(await listShown()).toEqual(untilRead);
  const [ofFcm, ofApns] = untilRead;
  for (const part of [
    ...['MissingProviderToken: authorization', 'apns-topic: a.b', 'apns-push-type: voip'],
    ...['apns-priority: 10', '"badge": 12345678901234567890'],
  ])
    expect(ofApns).toContain(part);
  for (const part of ['authorization: no valid', '"tag": "t"']) expect(ofFcm).toContain(part);
  await page.$$eval('#entries details', (all) => {
    for (const details of all) details.open = true;
  });
  expect(await findViolations(page)).toEqual([]);
  expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
  await page.close();
});

/** Posts over HTTP/2, and waits for the end of the response. */
async function post(
  url: string,
  { ca, headers, body }: { ca: string; headers: object; body: string },
): Promise<void> {
  const { origin, pathname } = new URL(url);
  const client = connect(origin, { ca });
  await text(client.request({ ':method': 'POST', ':path': pathname, ...headers }).end(body));
  client.close();
}

test("the sandbox's page leads to the demonstration, which reports that the push service of the browser can not be reached", async () => {
  const { sandbox, api } = stack.dev;
  const page = await browser.newPage();
  await page.goto(`${sandbox}/`);
  await Promise.all([page.waitForNavigation(), page.click('a[href="/demo/"]')]);
  const { searchParams, origin } = new URL(page.url());
  expect(Object.fromEntries(searchParams)).toEqual({ api, app: readDev(stack.home)?.app });
  await browser.defaultBrowserContext().overridePermissions(origin, ['notifications']);
  await page.click('#register');
  const readStatus = () => page.$eval('#status', (element) => element.textContent ?? '');
  // The page gives up after 20 s.
  const words = await until(
    async () => {
      const text = await readStatus();
      return text.includes('push service') && text;
    },
    { timeoutMs: 40_000, what: 'the page says why it is not turned on' },
  );
  expect(words).toMatch(/can not be reached\. .*docs\/use\/receive\/web\.md/);
  expect(await page.$('#register:not(:disabled)')).not.toBeNull();
});
