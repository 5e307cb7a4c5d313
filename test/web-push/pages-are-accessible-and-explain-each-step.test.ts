import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
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
  expect(words).toMatch(/can not be reached\. .*docs\/use\/web-push\.md/);
  expect(await page.$('#register:not(:disabled)')).not.toBeNull();
});
