import { afterAll, beforeAll, expect, test } from '@jest/globals';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { ensureBrowser } from '../support/web-push/ensure-browser.ts';

/** The page gives up after 20 s. */
const GIVEN_UP = { timeoutMs: 40_000, what: 'the page says why it is not turned on' };

let stack: Stack;
let browser: Browser;
let page: Page;
beforeAll(async () => {
  stack = await startStack();
  browser = await puppeteer.launch({
    browser: 'chrome',
    executablePath: await ensureBrowser('chromium'),
    headless: true,
    // Its own push service can't be reached: no host outside can.
    args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
    ignoreDefaultArgs: ['--disable-background-networking'],
  });
  page = await browser.newPage();
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await stack?.stop();
});

test("the sandbox's page leads to it with the stack's API and app", async () => {
  const { sandbox, api, app } = stack.dev;
  await page.goto(`${sandbox}/`);
  await Promise.all([page.waitForNavigation(), page.click('a[href="/demo/"]')]);
  const { searchParams } = new URL(page.url());
  expect(Object.fromEntries(searchParams)).toEqual({ api, app });
});

test('it reports when the push service of the browser can not be reached', async () => {
  const { origin } = new URL(page.url());
  await browser.defaultBrowserContext().overridePermissions(origin, ['notifications']);
  await page.click('#register');
  const words = await until(async () => {
    const text = await page.$eval('#status', (element) => element.textContent ?? '');
    return text.includes('push service') && text;
  }, GIVEN_UP);
  expect(words).toMatch(/can not be reached\. .*docs\/use\/web-push\.md/);
  expect(await page.$('#register:not(:disabled)')).not.toBeNull();
});
