import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { HTTPResponse, Page } from 'puppeteer-core';
import { openPage, waitUntilSettled } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { ALL_PATHS, visit } from '../support/console/pages.ts';

const KB = 1_024;
const PAGES = fileURLToPath(new URL('../../services/dashboard/web', import.meta.url));
const MANTINE_STYLES = join(PAGES, 'node_modules', '@mantine/core/styles.css');
/** Loaded when the overview is there. */
const CHARTS = /\/minute-charts-/;
const IS_CODE = /javascript|css/;

let fixture: ConsoleFixture;
beforeAll(async () => {
  fixture = await openConsole();
}, 120_000);
afterAll(() => fixture?.close());

const typeOf = (response: HTTPResponse) => response.headers()['content-type'] ?? '';

/** Returns the size of a file as it is sent; the server compresses it like this. */
async function sizeOf(response: HTTPResponse): Promise<number> {
  expect(response.headers()['content-encoding']).toBe('gzip');
  return gzipSync(await response.buffer(), { level: 9 }).length;
}

/** Opens a page with an empty cache. Returns the size of all scripts and styles, in bytes. */
async function measure(page: Page, address: string): Promise<number> {
  await page.setCacheEnabled(false);
  const responses: HTTPResponse[] = [];
  page.on('response', (response) => void responses.push(response));
  await page.goto(address);
  await waitUntilSettled(page);
  const files = responses.filter(
    (response) => IS_CODE.test(typeOf(response)) && !CHARTS.test(response.url()),
  );
  expect(files.length).toBeGreaterThan(2);
  const sizes = await Promise.all(files.map(sizeOf));
  await page.close();
  return sizes.reduce((sum, size) => sum + size, 0);
}

test('the login loads at most 220 KB of scripts and styles', async () => {
  const page = await openPage(fixture.browser);
  expect(await measure(page, `${fixture.origin}/login`)).toBeLessThanOrEqual(220 * KB);
});

test('the overview loads at most 252 KB of scripts and styles before its charts', async () => {
  const page = await fixture.owner.browserContext().newPage();
  expect(await measure(page, fixture.origin)).toBeLessThanOrEqual(252 * KB);
});

test('no component on a page is without its styles', async () => {
  const all = readFileSync(MANTINE_STYLES, 'utf8');
  const { ids } = await fixture.fill();
  const missing = new Set<string>();
  for (const path of ALL_PATHS) {
    await visit(fixture.owner, fixture.origin, path, ids);
    for (const name of (await fixture.owner.evaluate(FIND_UNSTYLED)) as string[]) {
      if (all.includes(`.${name}`)) missing.add(`${name} at ${path}`);
    }
  }
  expect([...missing]).toEqual([]);
});

// What runs in the page is text: it knows the names of browsers, which this code does not.
const FIND_UNSTYLED = `(() => {
  const rules = [...document.styleSheets].flatMap(({ cssRules }) => [...cssRules]);
  const styles = rules.map(({ cssText }) => cssText).join();
  const names = [...document.querySelectorAll('[class]')].flatMap(({ classList }) => [...classList]);
  return [...new Set(names)].filter((name) => /^m_[0-9a-f]+$/.test(name) && !styles.includes('.' + name));
})()`;
