import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'puppeteer-core';
import type { TestTenant } from '../support/api/tenants.ts';
import {
  click,
  fill,
  openChromium,
  readText,
  waitForOutcomes,
  waitForText,
} from '../support/console/browser.ts';
import { openOwner } from '../support/console/operators.ts';
import { send } from '../support/end-to-end/pushes.ts';
import {
  type ProviderDevice,
  registerAndroid,
  registerIphone,
} from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';

/** The panel of the outcome. It is text because it runs in the page. */
const SAYS_SENT = "document.querySelector('[role=status] dl')?.innerText.includes('Sent')";

let fixture: ProviderFixture;
let tenant: TestTenant;
let device: ProviderDevice;
let browser: Browser;
let page: Page;
beforeAll(async () => {
  fixture = await openProviderFixture({ dashboards: 1 });
  tenant = await fixture.tenant();
  device = await registerIphone(tenant.dev);
  browser = await openChromium();
  page = await openOwner(browser, fixture.stack.dev.setup);
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await fixture?.close();
});

test('a test push is sent to a device by its token at APNs, and its outcome is shown', async () => {
  const { console } = fixture.stack.dev;
  await page.goto(`${console}/apps/${tenant.app}?tab=credentials`);
  await fixture.sandbox.script('apns', device.address, [{ as: 'BadCollapseId' }]);
  await page.locator('section[aria-label="APNs"] button').click();
  await waitForText(page, 'Test push over APNs');
  await fill(page, 'Device', device.address);
  await click(page, 'Send');
  await waitForText(page, 'BadCollapseId');
  await click(page, 'Send');
  await page.waitForFunction(SAYS_SENT);
  await click(page, 'Open the push', 'link');
  await waitForOutcomes(page, 'Sent 1');
});

test('a test push over FCM reaches an Android device, whose first channel is MQTT', async () => {
  const android = await registerAndroid(tenant.dev);
  await page.goto(`${fixture.stack.dev.console}/apps/${tenant.app}?tab=credentials`);
  await page.locator('section[aria-label="FCM"] button').click();
  await fill(page, 'Device', android.token);
  await click(page, 'Send');
  await page.waitForFunction(SAYS_SENT);
  await click(page, 'Open the push', 'link');
  await waitForOutcomes(page, 'Sent 1');
  const push = new URL(page.url()).pathname.split('/')[2] ?? '';
  expect(await fixture.sandbox.received(push)).toMatchObject([{ to: android.address }]);
});

test('a refused delivery is listed with the reason of APNs, redriven, and sent', async () => {
  await fixture.sandbox.script('apns', device.address, [{ as: 'BadCollapseId' }]);
  const { id } = await send(tenant, [device.token]);
  expect(await untilFinal(fixture.store, { id }, device.token)).toMatchObject({
    outcome: 'failed',
  });

  const { console } = fixture.stack.dev;
  await page.goto(`${console}/apps/${tenant.app}/failures`);
  await waitForText(page, 'BadCollapseId');
  await page.locator(`input[type=checkbox][aria-label^="Select ${id}"]`).click();
  await click(page, 'Re-drive 1 push');
  await click(page, 'Re-drive');
  await waitForText(page, 'Finished');
  expect(await readText(page)).toMatch(/Sent anew\s+1/);

  await page.goto(`${console}/pushes/${id}`);
  await waitForText(page, 'Re-driven as');
  await page.locator('main dl a[href^="/pushes/"]').click();
  await page.waitForFunction(`!location.pathname.includes('${id}')`);
  await waitForText(page, 'Re-drive of');
  await waitForOutcomes(page, 'Sent 1');

  const redriven = new URL(page.url()).pathname.split('/')[2] ?? '';
  const received = await fixture.sandbox.received(redriven);
  expect(received).toMatchObject([{ to: device.address, status: 200 }]);
});
