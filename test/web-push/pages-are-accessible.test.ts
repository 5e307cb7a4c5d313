import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import puppeteer, { type Browser } from 'puppeteer-core';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import {
  findBrokenNames,
  findViolations,
  horizontalOverflow,
  openView,
  PAGE_VIEWS,
} from '../support/web-push/accessibility.ts';
import { ensureBrowser } from '../support/web-push/ensure-browser.ts';

let stack: SharedStack;
let browser: Browser;
beforeAll(async () => {
  stack = await useSharedStack();
  browser = await puppeteer.launch({
    browser: 'chrome',
    executablePath: await ensureBrowser('chromium'),
    headless: true,
    args: ['--no-sandbox'],
  });
}, 120_000);
afterAll(async () => {
  await browser?.close();
});

const PAGES = {
  'the reference': () => `${stack.dev.api}/docs`,
  'the page of the sandbox': () => `${stack.dev.sandbox}/`,
  'the demonstration of Web Push': () => `${stack.dev.sandbox}/demo/`,
};

describe.each(Object.entries(PAGES))('%s', (_name, url) => {
  test.each(PAGE_VIEWS)('is accessible, $width pixels wide and $scheme', async (view) => {
    const page = await openView(browser, url(), view);
    expect(await findViolations(page)).toEqual([]);
    await page.close();
  });

  test.each(PAGE_VIEWS)(
    'fits into $width pixels and breaks no word of code, $scheme',
    async (view) => {
      const page = await openView(browser, url(), view);
      expect(await findBrokenNames(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
      await page.close();
    },
  );
});
