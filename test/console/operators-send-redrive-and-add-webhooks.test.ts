import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Page } from 'puppeteer-core';
import { type Receiver, startReceiver, status } from '../../packages/webhooks/test/receiver.ts';
import { createProgram } from '../../services/dashboard/test/console-under-test.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import {
  click,
  fill,
  openPage,
  readText,
  waitForOutcomes,
  waitForText,
} from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { createSentRequests } from '../support/console/sent-requests.ts';
import { getPushStatus, send } from '../support/end-to-end/pushes.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import {
  type ProviderDevice,
  registerAndroid,
  registerAndroidByFcm,
  registerIphone,
} from '../support/providers/devices.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { registerDevice } from '../support/register-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { findViolations } from '../support/web-push/accessibility.ts';

/** The panel of the outcome. It is text because it runs in the page. */
const SAYS_SENT = "document.querySelector('[role=status] dl')?.innerText.includes('Sent')";

/** The panel of the apps names one as paused. */
const SHOWS_PAUSED =
  "document.querySelector('[aria-label=\"Busiest apps\"]')?.innerText.includes('Paused')";

let fixture: ConsoleFixture;
let stack: Stack;
let origin: string;
let page: Page;
let device: MqttDevice | undefined;
beforeAll(async () => {
  fixture = await openConsole();
  ({ stack, origin, owner: page } = fixture);
});
afterAll(async () => {
  await device?.disconnect();
  await fixture?.close();
});

/** Returns the id of the object that the page shows. */
const shownId = (): string => new URL(page.url()).pathname.split('/')[2] ?? '';
/** Waits until the page shows another push. Its title changes with its content, its address before. */
const waitForOther = (push: string) =>
  page.waitForFunction(`!location.pathname.includes('${push}') &&
    document.title.includes(location.pathname.split('/')[2])`);
/** Returns the error that a text field shows, found by its label. */
const readErrorOf = (of: Page, label: string) =>
  of.$eval(`::-p-aria([name="${label}"][role="textbox"])`, (input) => {
    const ids = input.getAttribute('aria-describedby')?.split(' ') ?? [];
    return ids.map((id: string) => input.ownerDocument.getElementById(id)?.textContent).join(' ');
  });
const untilClosed = () => page.waitForFunction("document.querySelector('[role=dialog]') === null");

/** Takes the secret from the dialog that shows it once. */
async function takeSecret(title: string): Promise<string> {
  await waitForText(page, title);
  const secret = await page.$eval('[role=dialog] pre', (code) => code.textContent);
  await click(page, 'I have stored it');
  await untilClosed();
  return secret ?? '';
}

/** Creates an app in the console. Returns its id and the key, which is shown once. */
async function createApp(): Promise<{ app: string; apiKey: string }> {
  await page.goto(`${origin}/apps`);
  await click(page, 'Create an app');
  await fill(page, 'Name', 'Shop');
  await click(page, 'Create');
  const apiKey = await takeSecret('First API key of the app');
  await page.waitForFunction("location.pathname.startsWith('/apps/')");
  return { app: shownId(), apiKey };
}

test('from the set-up link to a delivered push, without a reload', async () => {
  const { app, apiKey } = await createApp();
  await page.goto(`${origin}/apps/${app}`);
  await waitForText(page, apiKey.slice(-4));
  expect(await readText(page)).not.toContain(apiKey);

  const dev = { ...stack.dev, app, apiKey };
  device = createMqttDevice({ url: dev.mqtt, ...(await registerDevice(dev)) });
  await page.goto(`${origin}/apps/${app}/compose`);
  await fill(page, 'To', device.token);
  await click(page, 'Send');
  await waitForText(page, 'One device gets the push.');
  await click(page, 'See how it is delivered', 'link');
  await waitForOutcomes(page, 'Pending (stored) 1');
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

  const push = shownId();
  const api: Stack['api'] = (...call) => callApi(dev, ...call);
  expect(await getPushStatus({ api }, push)).toMatchObject({ pending_devices: [] });

  await click(page, 'Send again');
  await click(page, 'Send once more');
  await waitForOther(push);
  await waitForText(page, 'Last receipt from a device');
  await waitForOutcomes(page, 'Delivered 1');
  await device.waitFor(2);
});

test('the set-up link works once', async () => {
  const other = await openPage(fixture.browser);
  await other.goto(stack.dev.setup ?? '');
  await waitForText(other, 'This link does not work');
  await other.close();
  // A page behind another one draws nothing.
  await page.bringToFront();
});

describe('with providers,', () => {
  let tenant: TestTenant;
  let iphone: ProviderDevice;
  beforeAll(async () => {
    tenant = await fixture.tenant();
    iphone = await registerIphone(tenant.dev);
  });

  test('a test push is sent to a device by its token at APNs, and its outcome is shown', async () => {
    await page.goto(`${origin}/apps/${tenant.app}?tab=credentials`);
    await fixture.sandbox.script('apns', iphone.address, [{ as: 'BadCollapseId' }]);
    await page.locator('section[aria-label="APNs"] button').click();
    await waitForText(page, 'Test push over APNs');
    await fill(page, 'Device', iphone.address);
    await click(page, 'Send');
    await waitForText(page, 'BadCollapseId');
    await click(page, 'Send');
    await page.waitForFunction(SAYS_SENT);
    await click(page, 'Open the push', 'link');
    await waitForOutcomes(page, 'Sent 1');
  });

  test('a test push over FCM reaches an Android device, whose first channel is MQTT', async () => {
    const android = await registerAndroid(tenant.dev);
    await page.goto(`${origin}/apps/${tenant.app}?tab=credentials`);
    await page.locator('section[aria-label="FCM"] button').click();
    await fill(page, 'Device', android.token);
    await click(page, 'Send');
    await page.waitForFunction(SAYS_SENT);
    await click(page, 'Open the push', 'link');
    await waitForOutcomes(page, 'Sent 1');
    const push = shownId();
    expect(await fixture.sandbox.received(push)).toMatchObject([{ to: android.address }]);
  });

  test('once the settings use FCM, a phone that has never connected gets its pushes over it, and its page says so', async () => {
    const phone = await registerAndroidByFcm(tenant.dev);
    const openDevice = async () => {
      await page.goto(`${origin}/devices/${phone.token}`);
      await waitForText(page, 'Gets its pushes over');
      return readText(page);
    };
    expect(await openDevice()).toMatch(/Gets its pushes over\s+MQTT/);
    await page.goto(`${origin}/apps/${tenant.app}?tab=credentials`);
    await waitForText(page, 'FCM is off for the app');
    await page.goto(`${origin}/apps/${tenant.app}?tab=settings`);
    await page.locator('::-p-aria([name="FCM for Android"][role="combobox"])').fill('after');
    await fill(page, 'Fallback after (seconds)', '0');
    await click(
      page,
      'Show title and message of the payload as a notification over FCM',
      'checkbox',
    );
    expect(await findViolations(page)).toEqual([]);
    await click(page, 'Store the settings');
    await waitForText(page, 'The settings are stored.');
    const args = ['app', 'show', tenant.app];
    expect(await runCarillonJson(stack.home, ...args)).toMatchObject({
      ...{ fcmFallback: 0, fcmNotification: true },
    });
    expect(await openDevice()).toMatch(/Gets its pushes over\s+FCM/);
    await page.goto(`${origin}/apps/${tenant.app}/devices`);
    await waitForText(page, phone.token.slice(0, 4));
    expect(await readText(page)).toMatch(/android\s+FCM/);
  });

  test('deliveries are paused and resumed in the settings, and the overview shows what waits', async () => {
    const change = async (button: string, action: string, text: string) => {
      await page.goto(`${origin}/apps/${tenant.app}?tab=settings`);
      await click(page, button);
      await click(page, action);
      await waitForText(page, text);
    };
    const isPaused = async () =>
      (await runCarillonJson<{ paused: boolean }>(stack.home, 'app', 'show', tenant.app)).paused;
    await change('Pause deliveries', 'Pause', 'Paused: deliveries wait.');
    expect(await isPaused()).toBe(true);
    for (const path of ['', '/queues']) {
      await page.goto(`${origin}${path}`);
      await page.waitForFunction(SHOWS_PAUSED);
      expect(await findViolations(page)).toEqual([]);
    }
    await change('Resume deliveries', 'Resume', 'Deliveries are not paused.');
    expect(await isPaused()).toBe(false);
  });

  test('a push is composed with fields of Apple, which are shown, and sent again with it', async () => {
    const apns = { payload: { n: '1', aps: { 'interruption-level': 'passive' } } };
    const typed = JSON.stringify(apns).replace('"1"', '12345678901234567890');
    await page.goto(`${origin}/apps/${tenant.app}/compose?to=${iphone.token}`);
    await click(page, 'Fields of the providers');
    await fill(page, 'APNs', typed.slice(0, -1));
    for (const label of ['APNs', 'FCM']) await click(page, label, 'textbox');
    await waitForText(page, 'It is not JSON');
    expect(await readErrorOf(page, 'APNs')).toContain('It is not JSON');
    await fill(page, 'APNs', '{"headers":{"apns-topic":"other"}}');
    await click(page, 'Send');
    await waitForText(page, 'it follows from the device');
    expect(await readErrorOf(page, 'APNs')).toContain('"apns.headers.apns-topic" can\'t be set');
    expect(await findViolations(page)).toEqual([]);
    await fill(page, 'APNs', typed);
    await page.locator('::-p-aria([name="Priority"][role="combobox"])').fill('normal');
    const body = `{"to":"${iphone.token}","data":{"message":"Hello"},"priority":"normal","apns":${typed}}`;
    await waitForText(page, `-d '${body}'`);
    await waitForText(page, '"n": 12345678901234567890,');
    await click(page, 'Send');
    await waitForText(page, 'One device gets the push.');
    await click(page, 'See how it is delivered', 'link');
    await waitForOutcomes(page, 'Sent 1');
    await click(page, 'Show the payload');
    await waitForText(page, '"n": 12345678901234567890,');
    await waitForText(page, '"interruption-level": "passive"');

    const first = shownId();
    await click(page, 'Send again');
    await click(page, 'Send once more');
    await waitForOther(first);
    await waitForOutcomes(page, 'Sent 1');
    for (const push of [first, shownId()]) {
      expect(await fixture.sandbox.received(push)).toMatchObject([
        {
          headers: { 'apns-priority': '5' },
          payload: { message: 'Hello', ...apns.payload, n: expect.any(Number) },
        },
      ]);
    }
  });

  test('a refused delivery is listed with the reason of APNs, redriven, and sent', async () => {
    await fixture.sandbox.script('apns', iphone.address, [{ as: 'BadCollapseId' }]);
    const { id } = await send(tenant, [iphone.token]);
    expect(await untilFinal(fixture.store, { id }, iphone.token)).toMatchObject({
      outcome: 'failed',
    });

    await page.goto(`${origin}/apps/${tenant.app}/failures`);
    await waitForText(page, 'BadCollapseId');
    await page.locator(`input[type=checkbox][aria-label^="Select ${id}"]`).click();
    await click(page, 'Re-drive 1 push');
    await click(page, 'Re-drive');
    await waitForText(page, 'Finished');
    expect(await readText(page)).toMatch(/Sent anew\s+1/);

    await page.goto(`${origin}/pushes/${id}`);
    await waitForText(page, 'Re-driven as');
    await page.locator('main dl a[href^="/pushes/"]').click();
    await waitForOther(id);
    await waitForText(page, 'Re-drive of');
    await waitForOutcomes(page, 'Sent 1');

    const redriven = shownId();
    const received = await fixture.sandbox.received(redriven);
    expect(received).toMatchObject([{ to: iphone.address, status: 200 }]);
  });
});

test('a token is created, copied, used by a program, and revoked', async () => {
  await page.goto(`${origin}/operators`);
  await click(page, 'Create a token');
  await fill(page, 'Name', 'terraform');
  await click(page, 'admin', 'radio');
  await fill(page, 'Lifetime in days', '30');
  await click(page, 'Create');
  await waitForText(page, 'New token');
  await page.browserContext().overridePermissions(origin, ['clipboard-read', 'clipboard-write']);
  await click(page, 'Copy');
  await waitForText(page, 'Copied');
  const copied = (await page.evaluate('navigator.clipboard.readText()')) as string;
  const token = await takeSecret('New token');
  expect([copied, token]).toEqual([token, expect.stringMatching(/^cop_[\w-]{43}$/)]);

  const program = createProgram(origin, token);
  expect((await program.post('/api/accounts', { name: 'By a program' })).status).toBe(200);
  await page.goto(`${origin}/operators`);
  await waitForText(page, 'terraform');
  const shown = await readText(page);
  expect(shown).not.toContain(token);
  expect(shown).toMatch(/terraform\s+admin\s+all\s+Olga\s+(now|\d+ s)/);
  await click(page, 'Revoke: terraform');
  await click(page, 'Revoke');
  await waitForText(page, 'The token no longer works.');
  await waitForText(page, 'No tokens');
  expect((await program.get('/api/accounts')).status).toBe(401);
});

describe('webhooks:', () => {
  const SECRET_PATH = 'path-with-a-secret';
  const MARKUP = '<img src=x onerror="globalThis.markupRan=1">';
  const SERVICES = ['dashboard', 'delivery-worker', 'scheduler', 'api'];

  interface View {
    id: string;
    state: string;
    events: string[];
    reason?: string;
  }

  let receiver: Receiver;
  /** A push that has ended before there is a webhook. */
  let push: string;
  /** Secrets that the console has shown, the newest last. */
  const secrets: string[] = [];
  beforeAll(async () => {
    const { token } = await registerDevice(stack.dev);
    ({ id: push } = await send(stack, token));
    await stack.api('DELETE', `/pushes/${push}`);
    // Any secret: the webhook's is not known yet.
    receiver = await startReceiver('whsec_AAAA');
  });
  afterAll(() => receiver?.stop());

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

  test('one is added, and its secret is shown once', async () => {
    await page.goto(`${origin}/apps/${stack.dev.app}`);
    await click(page, 'Webhooks', 'tab');
    await waitForText(page, 'No webhooks yet');
    await click(page, 'Add a webhook');
    await fill(page, 'Address', `http://127.0.0.1:${receiver.port}/${SECRET_PATH}`);
    await click(page, 'Add');
    const secret = await takeSecret('Secret of the webhook');
    secrets.push(secret);
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
    secrets.push(await takeSecret('Secret of the webhook'));
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
      await untilClosed();
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

  test('requests are listed, with answers as text, and sent again, also by the command line', async () => {
    receiver.respondWith((_request, response) => response.writeHead(202).end(MARKUP));
    await sendTestEvent('Accepted (202)');
    const sent = createSentRequests(stack, (await listInTerminal())[0]?.id);
    const { id, at } = await sent.untilLast((last) => last.status === 202);
    await click(page, `Requests to 127.0.0.1:${receiver.port}`);
    await click(page, `Answer to the request of ${at}`);
    await waitForText(page, MARKUP);
    expect(await page.evaluate('globalThis.markupRan')).toBeUndefined();
    expect(await findViolations(page)).toEqual([]);
    const [request] = receiver.requests.slice(-1);
    receiver.requests.length = 0;
    await click(page, `Resend the request of ${at}`);
    await waitForText(page, '1 test, sent again');
    await sent.resend(id);
    await until(() => receiver.requests.length > 1);
    await sent.untilLast(({ resendOf }) => resendOf === id);
    expect([receiver.requests, receiver.forged]).toEqual([[request, request], 0]);
    receiver.respondWith(status(200));
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
    await untilClosed();
  });

  test('one is turned off and on, as the command line shows and does too', async () => {
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

  test('one is removed', async () => {
    await page.goto(`${origin}/apps/${stack.dev.app}?tab=webhooks`);
    await click(page, 'Remove');
    await click(page, 'Remove it');
    await waitForText(page, 'No webhooks yet');
    expect(await listInTerminal()).toEqual([]);
  });

  test('no log has an address or a secret', () => {
    for (const service of SERVICES) {
      const log = stack.readLog(service);
      expect(log).not.toBe('');
      for (const text of [SECRET_PATH, MARKUP, ...secrets]) expect(log).not.toContain(text);
    }
  });
});
