import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { HTTPResponse, Page } from 'puppeteer-core';
import { createOperatorToken } from '../../packages/admin/src/operator-tokens.ts';
import { click, waitForText, waitUntilSettled } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import {
  ALL_PATHS,
  fillPath,
  type PageIds,
  SESSION_PATHS,
  visit,
} from '../support/console/pages.ts';
import { watchPage } from '../support/console/watch-page.ts';
import { openMongo } from '../support/mongo.ts';
import {
  findViolations,
  horizontalOverflow,
  openView,
  PAGE_VIEWS,
} from '../support/web-push/accessibility.ts';

const MAX_FIRST_LOAD = 220 * 1_024;
const WEB = fileURLToPath(new URL('../../services/dashboard/web/', import.meta.url));
/** Class of one of Mantine's components: its style must be in the build. */
const COMPONENT_CLASS = /\bm_[0-9a-f]{6,8}\b/g;
/** Panels that the address of a page opens. */
const OPENED = ['/pushes/$push?token=$token'];
const MARKUP = '<img src=x onerror="globalThis.markupRan=1">';
/** Pages that show one of the texts with markup. */
const SHOWING = [
  ...[
    '/operators',
    '/apps',
    '/accounts',
    '/apps/$app/failures',
    '/apps/$app/pushes',
    '/pushes/$push',
  ],
];

let fixture: ConsoleFixture;
let account: string;
let ids: PageIds;
beforeAll(async () => {
  fixture = await openConsole();
  const filled = await fixture.fill();
  ({ ids } = filled);
  ({ account } = filled.tenant);
  await refuseCredential(ids.app);
  const grant = { name: MARKUP, role: 'viewer', accounts: [account], seconds: 3_600 } as const;
  await createOperatorToken(fixture.store, grant);
});
afterAll(() => fixture?.close());

/** Marks a credential as refused, so that each page shows a problem above its content. */
async function refuseCredential(app: string): Promise<void> {
  const { credentials } = fixture.store;
  for (const { _id, revision } of await credentials.listForChannel(app, 'apns'))
    await credentials.recordRefusal(_id, revision, 'InvalidProviderToken', 0);
}

const addressOf = (path: string) => `${fixture.origin}${fillPath(path, ids)}`;
const newPage = () => fixture.owner.browserContext().newPage();

describe('a page is accessible and fits,', () => {
  async function expectAccessible(page: Page): Promise<void> {
    expect(await findViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
  }

  test.each(PAGE_VIEWS)('a test push, $width pixels wide and $scheme', async (view) => {
    const address = addressOf('/apps/$app?tab=credentials');
    const page = await openView(fixture.owner.browserContext(), address, view);
    await click(page, 'Send a test push');
    await waitForText(page, 'Test push over');
    await page.locator('::-p-aria([name="Device"][role="textbox"])').fill(ids.token);
    await click(page, 'Send');
    await waitForText(page, 'The device has no address on this channel');
    await expectAccessible(page);
    await page.close();
  });

  test.each(PAGE_VIEWS)('dialogs of webhooks, $width pixels wide and $scheme', async (view) => {
    const address = addressOf('/apps/$app?tab=webhooks');
    const page = await openView(fixture.owner.browserContext(), address, view);
    for (const [button, text] of [
      ['Add a webhook', 'device.unsubscribed'],
      ['Edit', 'Leave it empty to keep the present one'],
      ['Replay', 'as far as they are stored'],
      ['Remove', 'This can’t be undone'],
    ] as const) {
      await click(page, button);
      if (button === 'Add a webhook') await click(page, 'All events', 'checkbox');
      await waitForText(page, text);
      await expectAccessible(page);
      await page.keyboard.press('Escape');
      await page.waitForFunction("document.querySelector('[role=dialog]') === null");
    }
    await page.close();
  });

  test.each(PAGE_VIEWS)('requests to a webhook, $width pixels wide and $scheme', async (view) => {
    const address = addressOf('/apps/$app?tab=webhooks');
    const page = await openView(fixture.owner.browserContext(), address, view);
    await click(page, 'Requests to receiver.example');
    await page.locator('button[aria-label^="Answer to the request"]').click();
    await waitForText(page, '<h1>Not found</h1>');
    await expectAccessible(page);
    await page.close();
  });

  test.each(PAGE_VIEWS)('dialogs of tokens, $width pixels wide and $scheme', async (view) => {
    const page = await openView(fixture.owner.browserContext(), addressOf('/operators'), view);
    for (const [button, text] of [
      ['Create a token', 'Lifetime in days'],
      ['Revoke', 'Programs that use it are refused at once'],
    ] as const) {
      await page.locator(`section[aria-label=Tokens] ::-p-text(${button})`).click();
      await waitForText(page, text);
      await expectAccessible(page);
      await page.keyboard.press('Escape');
      await page.waitForFunction("document.querySelector('[role=dialog]') === null");
    }
    await page.close();
  });

  describe.each([...ALL_PATHS, ...OPENED])('%s', (path) => {
    test.each(PAGE_VIEWS)('$width pixels wide and $scheme', async (view) => {
      const page = await openView(fixture.owner.browserContext(), addressOf(path), view);
      await waitUntilSettled(page);
      if (SESSION_PATHS.includes(path)) await page.waitForSelector('section[aria-label=Problems]');
      await expectAccessible(page);
      await page.close();
    });
  });
});

describe('the first load', () => {
  /** Returns the size of a file as it is sent; the server compresses it like this. Chromium may have dropped its content. */
  async function sizeOf(response: HTTPResponse): Promise<number> {
    expect(response.headers()['content-encoding']).toBe('gzip');
    const file = await fetch(response.url());
    expect(file.status).toBe(200);
    return gzipSync(await file.bytes(), { level: 9 }).length;
  }

  test.each(ALL_PATHS)('of %s has at most 220 KB of scripts and styles', async (path) => {
    const page = await newPage();
    await page.setCacheEnabled(false);
    const responses: HTTPResponse[] = [];
    page.on('response', (response) => void responses.push(response));
    await page.goto(addressOf(path));
    await waitUntilSettled(page);
    const files = responses.filter((response) =>
      /javascript|css/.test(response.headers()['content-type'] ?? ''),
    );
    expect(files.length).toBeGreaterThan(2);
    const sizes = await Promise.all(files.map(sizeOf));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MAX_FIRST_LOAD);
    await page.close();
  });

  test('includes the styles of every component, also in dialogs', () => {
    const findClasses = (pattern: string) =>
      globSync(pattern, { cwd: WEB }).flatMap(
        (file) => readFileSync(`${WEB}${file}`, 'utf8').match(COMPONENT_CLASS) ?? [],
      );
    const styles = new Set(findClasses('dist/assets/*.css'));
    // A few classes are only markers, which no style of the library selects.
    const known = new Set(findClasses('node_modules/@mantine/core/styles.css'));
    const used = findClasses('dist/assets/*.js');
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((name) => known.has(name) && !styles.has(name))).toEqual([]);
  });
});

describe('markup in texts of a tenant, which all checks of the API have missed,', () => {
  beforeAll(async () => {
    const { app } = ids;
    const mongo = await openMongo(fixture.stack.dev);
    const of = (name: string) => mongo.db.collection<{ _id: string }>(name);
    await of('accounts').updateOne({ _id: account }, { $set: { name: MARKUP } });
    await of('apps').updateOne({ _id: app }, { $set: { name: MARKUP } });
    const data = JSON.stringify({ title: MARKUP, [MARKUP]: MARKUP });
    await of('pushes').updateMany({ app }, { $set: { data, collapse: MARKUP } });
    const addressed = { app, provider: { $exists: true } };
    await of('devices').updateMany(addressed, { $set: { 'provider.address': MARKUP } });
    const failed = { app, 'work.words.0': { $exists: true } };
    const words = { $set: { 'work.words.$[].0': MARKUP } };
    const changes = ['pushes', 'batches'].map((name) => of(name).updateMany(failed, words));
    const counts = (await Promise.all(changes)).map(({ modifiedCount }) => modifiedCount);
    expect(Math.max(...counts)).toBeGreaterThan(0);
    await mongo.close();
  });

  test.each(SESSION_PATHS)('is not interpreted on %s', async (path) => {
    const page = await newPage();
    const watch = watchPage(page, fixture.origin);
    await visit(page, fixture.origin, path, ids);
    if (SHOWING.includes(path)) await waitForText(page, MARKUP);
    expect(await page.evaluate('globalThis.markupRan')).toBeUndefined();
    expect(await page.$('img[src="x"]')).toBeNull();
    expect(watch.take()).toEqual([]);
    await page.close();
  });
});
