import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { HTTPResponse, Page } from 'puppeteer-core';
import { waitUntilSettled } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { ALL_PATHS, fillPath, type PageIds, visit } from '../support/console/pages.ts';

const MAX_FIRST_LOAD = 220 * 1_024;
const PAGES = fileURLToPath(new URL('../../services/dashboard/web', import.meta.url));
const MANTINE_STYLES = join(PAGES, 'node_modules', '@mantine/core/styles.css');
const IS_CODE = /javascript|css/;

let fixture: ConsoleFixture;
let ids: PageIds;
beforeAll(async () => {
  fixture = await openConsole();
  ({ ids } = await fixture.fill());
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
  const files = responses.filter((response) => IS_CODE.test(typeOf(response)));
  expect(files.length).toBeGreaterThan(2);
  const sizes = await Promise.all(files.map(sizeOf));
  await page.close();
  return sizes.reduce((sum, size) => sum + size, 0);
}

test.each(ALL_PATHS)('%s loads at most 220 KB of scripts and styles', async (path) => {
  const page = await fixture.owner.browserContext().newPage();
  const size = await measure(page, `${fixture.origin}${fillPath(path, ids)}`);
  expect(size).toBeLessThanOrEqual(MAX_FIRST_LOAD);
});

test('no component on a page is without its styles', async () => {
  const all = readFileSync(MANTINE_STYLES, 'utf8');
  const missing = new Set<string>();
  for (const path of ALL_PATHS) {
    await visit(fixture.owner, fixture.origin, path, ids);
    for (const name of (await fixture.owner.evaluate(FIND_UNSTYLED)) as string[]) {
      if (all.includes(`.${name}`)) missing.add(`${name} at ${path}`);
    }
  }
  expect([...missing]).toEqual([]);
});

// Scripts of the page are texts: they use names of browsers that this code does not have.
const FIND_UNSTYLED = `(() => {
  const rules = [...document.styleSheets].flatMap(({ cssRules }) => [...cssRules]);
  const styles = rules.map(({ cssText }) => cssText).join();
  const names = [...document.querySelectorAll('[class]')].flatMap(({ classList }) => [...classList]);
  return [...new Set(names)].filter((name) => /^m_[0-9a-f]+$/.test(name) && !styles.includes('.' + name));
})()`;
