import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'puppeteer-core';
import type { TestTenant } from '../support/api/tenants.ts';
import {
  click,
  openChromium,
  readText,
  waitForOutcomes,
  waitForText,
} from '../support/console/browser.ts';
import { openOwner } from '../support/console/operators.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { type ProviderDevice, registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';

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

test('a refused delivery is listed with the words of APNs, re-driven, and sent', async () => {
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
