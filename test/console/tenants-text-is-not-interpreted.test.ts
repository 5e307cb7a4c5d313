import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { waitForText, waitUntilSettled } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { ALL_PATHS, type PageIds, visit } from '../support/console/pages.ts';
import { watchPage } from '../support/console/watch-page.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';

const MARKUP = '<img src=x onerror="globalThis.markupRan=1">';
const BEFORE_LOGIN = ['/login', '/setup'];
const PATHS = ALL_PATHS.filter((path) => !BEFORE_LOGIN.includes(path));
/** Pages that show one of the texts. */
const SHOWING = ['/apps', '/accounts', '/apps/$app/failures', '/pushes/$push'];

let fixture: ConsoleFixture;
let mongo: TestMongo;
let ids: PageIds;
beforeAll(async () => {
  fixture = await openConsole();
  mongo = await openMongo(fixture.stack.dev);
  const filled = await fixture.fill();
  ids = filled.ids;
  await writeMarkup(filled.tenant.account);
}, 120_000);
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

/** Puts markup into the texts of a tenant, its pushes, devices and providers, past all checks of the API. */
async function writeMarkup(account: string): Promise<void> {
  const { app } = ids;
  const of = (name: string) => mongo.db.collection(name);
  await of('accounts').updateOne({ _id: account as never }, { $set: { name: MARKUP } });
  await of('apps').updateOne({ _id: app as never }, { $set: { name: MARKUP } });
  const data = JSON.stringify({ text: MARKUP, [MARKUP]: MARKUP });
  await of('pushes').updateMany({ app }, { $set: { data, collapse: MARKUP } });
  await of('devices').updateMany(
    { app, provider: { $exists: true } },
    { $set: { 'provider.address': MARKUP } },
  );
  const failed = { app, 'work.words.0': { $exists: true } };
  const words = { $set: { 'work.words.$[].0': MARKUP } };
  const changed = await Promise.all(
    ['pushes', 'batches'].map((name) => of(name).updateMany(failed, words)),
  );
  expect(changed.reduce((sum, { modifiedCount }) => sum + modifiedCount, 0)).toBeGreaterThan(0);
}

test.each(PATHS)('on %s', async (path) => {
  const page = await fixture.owner.browserContext().newPage();
  const watch = watchPage(page, fixture.origin);
  await visit(page, fixture.origin, path, ids);
  await waitUntilSettled(page);
  if (SHOWING.includes(path)) await waitForText(page, MARKUP);
  expect(await page.evaluate('globalThis.markupRan')).toBeUndefined();
  expect(await page.$('img[src="x"]')).toBeNull();
  expect(watch.take()).toEqual([]);
  await page.close();
});
