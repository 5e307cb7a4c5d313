import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'puppeteer-core';
import {
  click,
  fill,
  openChromium,
  openPage,
  readText,
  waitForOutcomes,
  waitForText,
} from '../support/console/browser.ts';
import { openOwner } from '../support/console/operators.ts';
import { getPushStatus } from '../support/end-to-end/pushes.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import { registerDevice } from '../support/register-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import { type Stack, startStack } from '../support/stack.ts';

let stack: Stack;
let browser: Browser;
let device: MqttDevice | undefined;
beforeAll(async () => {
  stack = await startStack({ dashboards: 1 });
  browser = await openChromium();
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await device?.disconnect();
  await stack?.stop();
});

/** Creates an app in the console. Returns its id and the key, which is shown once. */
async function createApp(page: Page): Promise<{ app: string; apiKey: string }> {
  await page.goto(`${stack.dev.console}/apps`);
  await click(page, 'Create an app');
  await fill(page, 'Name', 'Shop');
  await click(page, 'Create');
  await waitForText(page, 'First API key of the app');
  const apiKey = (await page.$eval('[role=dialog] pre', (code) => code.textContent)) ?? '';
  await click(page, 'I have stored it');
  await page.waitForFunction("location.pathname.startsWith('/apps/')");
  return { app: new URL(page.url()).pathname.split('/')[2] ?? '', apiKey };
}

test('from the set-up link to a delivered push, without a reload', async () => {
  const page = await openOwner(browser, stack.dev.setup);

  const { app, apiKey } = await createApp(page);
  await page.goto(`${stack.dev.console}/apps/${app}`);
  await waitForText(page, apiKey.slice(-4));
  expect(await readText(page)).not.toContain(apiKey);

  const dev = { ...stack.dev, app, apiKey };
  device = createMqttDevice({ url: dev.mqtt, ...(await registerDevice(dev)) });
  await page.goto(`${stack.dev.console}/apps/${app}/compose`);
  await fill(page, 'To', device.token);
  await click(page, 'Send');
  await waitForText(page, 'One device gets the push.');
  await click(page, 'See how it is delivered', 'link');
  await waitForOutcomes(page, 'In inbox 1');
  await waitForText(page, 'Live');

  await page.evaluate('globalThis.isSamePage = true');
  await device.connect();
  const [arrival] = await device.waitFor(1);
  expect(JSON.parse(arrival?.payload ?? '')).toMatchObject({ message: 'Hello' });
  await waitForOutcomes(page, 'Delivered 1');
  await waitForText(page, 'Finished');
  // The device was offline: its receipt came after the batch was done.
  await waitForText(page, 'Last receipt from a device');
  expect(await page.evaluate('globalThis.isSamePage')).toBe(true);

  const push = new URL(page.url()).pathname.split('/')[2] ?? '';
  const api: Stack['api'] = (...call) => callApi(dev, ...call);
  expect(await getPushStatus({ api }, push)).toMatchObject({ pending_devices: [] });

  await click(page, 'Send again');
  await click(page, 'Send once more');
  await page.waitForFunction(`!location.pathname.includes('${push}')`);
  await waitForText(page, 'Last receipt from a device');
  await waitForOutcomes(page, 'Delivered 1');
  await device.waitFor(2);
});

test('the set-up link works once', async () => {
  const page = await openPage(browser);
  await page.goto(stack.dev.setup ?? '');
  await waitForText(page, 'This link does not work');
});
