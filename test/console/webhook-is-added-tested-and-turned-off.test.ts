import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'puppeteer-core';
import { type Receiver, startReceiver, status } from '../../packages/webhooks/test/receiver.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { click, fill, openChromium, readText, waitForText } from '../support/console/browser.ts';
import { openOwner } from '../support/console/operators.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { findViolations } from '../support/web-push/accessibility.ts';

const SECRET_PATH = 'path-with-a-secret';
const SERVICES = ['dashboard', 'delivery-worker', 'scheduler', 'api'];

interface View {
  id: string;
  state: string;
  events: string[];
  reason?: string;
}

let stack: Stack;
let browser: Browser;
let page: Page;
let receiver: Receiver;
/** A push that has ended before there is a webhook. */
let push: string;
/** Secrets that the console has shown, the newest last. */
const secrets: string[] = [];
beforeAll(async () => {
  stack = await startStack({ dashboards: 1 });
  const { token } = await registerDevice(stack.dev);
  ({ id: push } = await send(stack, token));
  await stack.api('DELETE', `/pushes/${push}`);
  browser = await openChromium();
  page = await openOwner(browser, stack.dev.setup);
  // Any secret: the webhook's is not known yet.
  receiver = await startReceiver('whsec_AAAA');
}, 120_000);
afterAll(async () => {
  await receiver?.stop();
  await browser?.close();
  await stack?.stop();
});

/** Takes the secret from the dialog that shows it once. */
async function takeSecret(): Promise<string> {
  await waitForText(page, 'Secret of the webhook');
  const secret = (await page.$eval('[role=dialog] pre', (code) => code.textContent)) ?? '';
  await click(page, 'I have stored it');
  await page.waitForFunction("document.querySelector('[role=dialog]') === null");
  secrets.push(secret);
  return secret;
}

/** Starts the receiver anew on its port, so that it checks signatures with another secret. */
async function restartReceiver(secret: string): Promise<void> {
  const { port } = receiver;
  await receiver.stop();
  receiver = await startReceiver(secret, port);
}

/** Sends a test event and waits for a response in words. */
async function sendTestEvent(response: string): Promise<void> {
  await click(page, 'Send a test event');
  await waitForText(page, `Response to the test event: ${response}`);
}

const listEvents = () => receiver.requests.flatMap(({ events }) => events);
const isTested = () => listEvents().some(({ type }) => type === 'test');
const listInTerminal = () =>
  runCarillonJson<View[]>(stack.home, 'webhook', 'list', '--app', stack.dev.app);

test('a webhook is added, and its secret is shown once', async () => {
  await page.goto(`${stack.dev.console}/apps/${stack.dev.app}`);
  await click(page, 'Webhooks', 'tab');
  await waitForText(page, 'No webhooks yet');
  await click(page, 'Add a webhook');
  await fill(page, 'Address', `http://127.0.0.1:${receiver.port}/${SECRET_PATH}`);
  await click(page, 'Add');
  const secret = await takeSecret();
  expect(secret).toMatch(/^whsec_/);
  await page.reload();
  await waitForText(page, `127.0.0.1:${receiver.port}`);
  expect(await readText(page)).toContain('None yet');
  expect(await page.content()).not.toContain(secret);
  expect(await page.content()).not.toContain(SECRET_PATH);
});

test('the response to a test event is shown', async () => {
  await restartReceiver(secrets.at(-1) ?? '');
  await sendTestEvent('Accepted (200)');
  expect([isTested(), receiver.forged]).toEqual([true, 0]);
});

test('after a rotation, requests are signed with both secrets', async () => {
  await click(page, 'Rotate the secret');
  await click(page, 'Create');
  await takeSecret();
  await waitForText(page, 'Previous secret signs until');
  expect(new Set(secrets).size).toBe(2);
  for (const secret of secrets) {
    await restartReceiver(secret);
    await page.reload();
    await sendTestEvent('Accepted (200)');
    expect([isTested(), receiver.forged]).toEqual([true, 0]);
  }
});

test('events and the address are edited, as the command line does too', async () => {
  const edit = async () => {
    await click(page, 'Edit');
    await waitForText(page, 'Leave it empty to keep the present one');
  };
  const save = async () => {
    await click(page, 'Save');
    await page.waitForFunction("document.querySelector('[role=dialog]') === null");
  };
  await edit();
  await click(page, 'All events', 'checkbox');
  await click(page, 'device.registered', 'checkbox');
  expect(await findViolations(page)).toEqual([]);
  await save();
  const [edited] = await listInTerminal();
  expect(edited?.events).toContain('recipient.deleted');
  expect(edited?.events).not.toContain('device.registered');
  const args = ['--app', stack.dev.app, '--url', 'http://localhost:1/'];
  await runCarillonJson(stack.home, 'webhook', 'edit', edited?.id ?? '', ...args);
  await page.reload();
  await waitForText(page, 'localhost:1');
  await edit();
  await fill(page, 'New address', `http://127.0.0.1:${receiver.port}/${SECRET_PATH}`);
  await click(page, 'All events', 'checkbox');
  await save();
  await waitForText(page, `127.0.0.1:${receiver.port}`);
  await sendTestEvent('Accepted (200)');
  expect([isTested(), receiver.forged]).toEqual([true, 0]);
});

test('a replay reports a push that is older than the webhook', async () => {
  const listReported = () =>
    listEvents().flatMap(({ type, data }) => (data.push === push ? [type] : []));
  expect(listReported()).toEqual([]);
  await click(page, 'Replay');
  await click(page, 'Replay these pushes');
  await waitForText(page, 'pushes are reported again.');
  await until(() => listReported().length >= 2);
  expect(new Set(listReported())).toEqual(new Set(['recipient.deleted', 'push.finished']));
  await page.keyboard.press('Escape');
  await page.waitForFunction("document.querySelector('[role=dialog]') === null");
});

test('a webhook is turned off and on, as the command line shows and does too', async () => {
  await click(page, 'Turn off');
  await click(page, 'Turn it off');
  await waitForText(page, 'Turned off by an operator');
  const [webhook] = await listInTerminal();
  expect(webhook).toMatchObject({ state: 'off', reason: 'operator' });
  await runCarillonJson(stack.home, 'webhook', 'on', webhook?.id ?? '', '--app', stack.dev.app);
  await page.reload();
  await waitForText(page, 'Send a test event');
});

test('410 turns it off, which the page of the app shows on each tab', async () => {
  receiver.respondWith(status(410));
  await sendTestEvent('The receiver wants no more requests (410)');
  await waitForText(page, 'Turned off: the receiver responded with 410');
  expect(await findViolations(page)).toEqual([]);
  await click(page, 'Settings', 'tab');
  await waitForText(page, 'Registration of devices');
  expect(await readText(page)).toContain('Webhooks (1 turned off)');
});

test('a webhook is removed', async () => {
  await page.goto(`${stack.dev.console}/apps/${stack.dev.app}?tab=webhooks`);
  await click(page, 'Remove');
  await click(page, 'Remove it');
  await waitForText(page, 'No webhooks yet');
  expect(await listInTerminal()).toEqual([]);
});

test('no log has an address or a secret', () => {
  for (const service of SERVICES) {
    const log = stack.readLog(service);
    expect(log).not.toBe('');
    for (const text of [SECRET_PATH, ...secrets]) expect(log).not.toContain(text);
  }
});
