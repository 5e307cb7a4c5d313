import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { click, waitForText, waitUntilSettled } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { ALL_PATHS, fillPath, type PageIds } from '../support/console/pages.ts';
import {
  findViolations,
  horizontalOverflow,
  openView,
  PAGE_VIEWS,
} from '../support/web-push/accessibility.ts';

/** Panels that the address of a page opens. */
const OPENED = ['/pushes/$push?token=$token'];

let fixture: ConsoleFixture;
let ids: PageIds;
beforeAll(async () => {
  fixture = await openConsole();
  ({ ids } = await fixture.fill());
}, 120_000);
afterAll(() => fixture?.close());

test.each(PAGE_VIEWS)('a test push, $width pixels wide and $scheme', async (view) => {
  const address = `${fixture.origin}${fillPath('/apps/$app?tab=credentials', ids)}`;
  const page = await openView(fixture.owner.browserContext(), address, view);
  await click(page, 'Send a test push');
  await waitForText(page, 'Test push over');
  await page.locator('::-p-aria([name="Device"][role="textbox"])').fill(ids.token);
  await click(page, 'Send');
  await waitForText(page, 'The device has no address on this channel');
  expect(await findViolations(page)).toEqual([]);
  expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
  await page.close();
});

test.each(PAGE_VIEWS)('the dialogs of webhooks, $width pixels wide and $scheme', async (view) => {
  const address = `${fixture.origin}${fillPath('/apps/$app?tab=webhooks', ids)}`;
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
    expect(await findViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
    await page.keyboard.press('Escape');
    await page.waitForFunction("document.querySelector('[role=dialog]') === null");
  }
  await page.close();
});

describe.each([...ALL_PATHS, ...OPENED])('%s', (path) => {
  test.each(PAGE_VIEWS)('is accessible and fits, $width pixels wide and $scheme', async (view) => {
    const address = `${fixture.origin}${fillPath(path, ids)}`;
    const page = await openView(fixture.owner.browserContext(), address, view);
    await waitUntilSettled(page);
    expect(await findViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBeLessThanOrEqual(0);
    await page.close();
  });
});
